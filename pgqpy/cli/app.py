"""The root command of ``pgqpy``: its subcommands, global options and exit code."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import click

from pgqpy.cli import failures
from pgqpy.cli.options import COMMAND_SETTINGS, Target, dsn_option

EPILOG = """\b
A first queue:
  pgqpy --dsn postgresql://localhost/shop schema install
  pgqpy --dsn postgresql://localhost/shop queue create orders
  pgqpy --dsn postgresql://localhost/shop ticker run

\b
Completion, for bash (zsh and fish: put their name in place of bash):
  eval "$(_PGQPY_COMPLETE=bash_source pgqpy)"

Exit codes: 0 fine, 1 failed or unhealthy, 2 wrong usage, 130 interrupted.
PGQPY_DEBUG=1 shows the traceback of an error.
"""


class LazyCommand(NamedTuple):
    """The place of a command (``module:name``) and its line in the group's help."""

    place: str
    help: str


class LazyGroup(click.Group):
    """A group that imports a command when it is called, so that ``--help`` answers at once.

    `lazy` maps names to commands, in the order of the help.
    """

    def __init__(self, *args: Any, lazy: dict[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, imported or not."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if the name is unknown."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, name = self.lazy[cmd_name].place.split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.lazy.items()])


COMMANDS = {
    "demo": LazyCommand(
        "pgqpy.cli.demo:demo", "Run a real workload against a PostgreSQL of its own."
    ),
    "doctor": LazyCommand("pgqpy.cli.doctor:doctor", "Say what is wrong and what to do about it."),
    "schema": LazyCommand(
        "pgqpy.cli.schema:schema", "Install, upgrade, look at or remove the engine."
    ),
    "queue": LazyCommand("pgqpy.cli.queue:queue", "Create, configure, look at or drop queues."),
    "consumer": LazyCommand("pgqpy.cli.consumer:consumer", "Register, look at or run consumers."),
    "event": LazyCommand(
        "pgqpy.cli.event:event", "Insert, load or look at events; look after dead ones."
    ),
    "pipeline": LazyCommand("pgqpy.cli.pipeline:pipeline", "Stream a queue to files, on Spark."),
    "ticker": LazyCommand(
        "pgqpy.cli.ticker:ticker",
        "Run the daemon that ticks, retries and rotates, or see who does.",
    ),
}


class App(LazyGroup):
    """The command line as a whole: whatever goes wrong becomes one line and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run and exit; data went to stdout, everything else to stderr."""
        extra["standalone_mode"] = False
        _open_missing_streams()
        _write_any_text()
        try:
            result = super().main(*args, **extra)
            sys.stdout.flush()
        except BaseException as exc:  # noqa: BLE001  # the one place that turns any error into a line
            sys.exit(failures.report(exc))
        sys.exit(result if isinstance(result, int) else 0)


def _open_missing_streams() -> None:
    """Open /dev/null in place of what the shell closed (`>&-`).

    Otherwise the connection to the server would get the number of standard output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004  # standard error
        pass
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # open to the end


def _write_any_text() -> None:
    """Escape what the encoding of standard output lacks, as standard error does by itself."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="backslashreplace")


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001  # click's signature
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"pgqpy {version('pgqpy')}")
    ctx.exit()


@click.group(cls=App, lazy=COMMANDS, epilog=EPILOG, context_settings=COMMAND_SETTINGS)
@dsn_option(envvar="PGQPY_DSN")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version and exit.",
)
@click.pass_context
def app(ctx: click.Context) -> None:
    """PGQ for Python: an event queue that lives inside PostgreSQL.

    The database is named by --dsn, by PGQPY_DSN, or by libpq's own variables (PGHOST, PGDATABASE,
    PGSERVICE, ...; a password best by ~/.pgpass). Every command explains itself with --help.
    """
    ctx.ensure_object(Target)


def main() -> NoReturn:
    """Run ``pgqpy`` (the console script)."""
    app.main(prog_name="pgqpy")
