"""Every command explains itself, with an example that is really a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version

import click
import pytest

from pgqpy.cli.app import app
from tests.cli.support import Run, failed_with
from tests.docs.markdown import text

MOST = 48  # commands: 40, those of captured tables, queue rename, pipeline clean, event schema
READERS = """
    schema status, queue list, queue show, consumer list, consumer show, event list, event show,
    event cancel, cron list, archive list, ticker status, doctor, top
"""


def names(words: str) -> set[str]:
    return {" ".join(name.split()) for name in words.split(",")}


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


def test_the_page_of_commands_names_each_and_no_other() -> None:
    assert len(COMMANDS) <= MOST
    lines = re.findall(
        r"^\| `([^`]+)`", text("docs/commands.md").partition("What each")[2], re.MULTILINE
    )
    told = {" ".join(re.findall(r"^[a-z]+(?: [a-z]+)?", line)) for line in lines}
    assert told == set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("evnt", "did you mean event?"),
        ("event lst", "did you mean list?"),
        ("schema upgrade", "there are install, print,"),
        ("event peek", "there are cancel, delete,"),
    ],
)
def test_a_misspelt_command_is_told_the_right_one(bare_run: Run, words: str, told: str) -> None:
    assert failed_with(bare_run(*words.split()), 2, told)


@pytest.mark.parametrize("name", names(READERS))
def test_every_command_that_reads_has_json_output(name: str) -> None:
    assert "--json" in [option for param in COMMANDS[name].params for option in param.opts]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(bare_run: Run, name: str) -> None:
    shown = bare_run(*name.split(), "--help")
    assert shown.exit_code == 0
    told = " ".join(shown.stdout.split())
    assert "Example: " in told
    assert f"Usage: pgqpy {name}" in told


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_is_a_command(name: str) -> None:
    told = " ".join((COMMANDS[name].help or "").split())
    example = told.partition("Example: ")[2]
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
    told = bare_run("--help").stdout
    assert "_PGQPY_COMPLETE=bash_source pgqpy" in told
    assert "Exit codes: 0" in told


def test_version(bare_run: Run) -> None:
    assert bare_run("--version").stdout == f"pgqpy {version('pgqpy')}\n"


@pytest.mark.parametrize("group", [(), ("queue",)])
def test_no_command_at_all_shows_the_help_as_it_is(bare_run: Run, group: tuple[str, ...]) -> None:
    result = bare_run(*group)
    assert result.exit_code == 2
    assert result.stderr == bare_run(*group, "--help").stdout


@pytest.mark.parametrize("name", ["demo", "simulate"])
def test_a_trial_names_the_database_that_it_uses_without_dsn(bare_run: Run, name: str) -> None:
    told = " ".join(bare_run(name, "--help").stdout.split())
    assert "ignores PGQPY_DSN" in told
    assert "key=value string. [default: a temporary PostgreSQL]" in told
    assert "env: PGQPY_DSN" not in told
