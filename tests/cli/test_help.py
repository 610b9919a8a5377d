"""Every command explains itself, with an example that is really a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest

from pgqpy.cli.app import app
from tests.cli.support import Run

# Fixed by the design; more may come, none may go.
PROMISED = """
    schema install, schema upgrade, schema status, schema print, schema uninstall, schema repair,
    queue create, queue drop, queue list, queue show, queue set,
    consumer register, consumer unregister, consumer list, consumer show, consumer run,
    event insert, event load, pipeline run, ticker run, ticker status, demo, doctor, top
"""
READERS = """
    schema status, queue list, queue show, consumer list, consumer show, event dead, doctor,
    ticker status, top
"""


def names(text: str) -> set[str]:
    return {" ".join(name.split()) for name in text.split(",")}


def commands(
    group: click.Group = app, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        here = (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, here)
        else:
            yield " ".join(here), command


COMMANDS = dict(commands())


def test_the_promised_commands_are_there() -> None:
    assert names(PROMISED) <= set(COMMANDS)


@pytest.mark.parametrize("name", names(READERS))
def test_every_command_that_reads_has_json_output(name: str) -> None:
    assert "--json" in [option for param in COMMANDS[name].params for option in param.opts]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(bare_run: Run, name: str) -> None:
    shown = bare_run(*name.split(), "--help")
    assert shown.exit_code == 0
    text = " ".join(shown.stdout.split())
    assert "Example: " in text
    assert f"Usage: pgqpy {name}" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_is_a_command(name: str) -> None:
    text = " ".join((COMMANDS[name].help or "").split())
    example = text.partition("Example: ")[2]
    words = shlex.split(next(part for part in example.split("|") if "pgqpy" in part))
    assert words[0] == "pgqpy"
    # Parsed as it stands: every option and argument in it is known.
    context = app.make_context("pgqpy", words[1:], resilient_parsing=False)
    while isinstance(context.command, click.Group):
        first, command, rest = context.command.resolve_command(context, remaining(context))
        assert command is not None
        context = command.make_context(first, rest, parent=context)
    assert context.command_path == f"pgqpy {name}"


def remaining(context: click.Context) -> list[str]:
    return [*context._protected_args, *context.args]


def test_root_help_tells_of_completion_and_exit_codes(bare_run: Run) -> None:
    text = bare_run("--help").stdout
    assert "_PGQPY_COMPLETE=bash_source pgqpy" in text
    assert "Exit codes: 0" in text


def test_version(bare_run: Run) -> None:
    assert bare_run("--version").stdout == f"pgqpy {version('pgqpy')}\n"


@pytest.mark.parametrize("group", [(), ("queue",)])
def test_no_command_at_all_shows_the_help_as_it_is(bare_run: Run, group: tuple[str, ...]) -> None:
    result = bare_run(*group)
    assert result.exit_code == 2
    assert result.stderr == bare_run(*group, "--help").stdout


@pytest.mark.parametrize("name", ["demo", "simulate"])
def test_a_trial_names_the_database_that_it_uses_without_dsn(bare_run: Run, name: str) -> None:
    text = " ".join(bare_run(name, "--help").stdout.split())
    assert "ignores PGQPY_DSN" in text
    assert "key=value string. [default: a temporary PostgreSQL]" in text
    assert "env: PGQPY_DSN" not in text
