"""The root command of ``pgqpy``: its subcommands, global options and exit code."""

from __future__ import annotations

import io
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from pgqpy.cli import failures
from pgqpy.cli.options import Noun, Target, dsn_option

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

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}  # of all commands
COMMANDS = {  # the module in pgqpy.cli, and the help
    "demo": ("trials", "Show exactly-once processing on a temporary PostgreSQL."),
    "simulate": ("trials", "Verify that nothing is lost, doubled or out of order."),
    "dashboard": ("overviews", "Show the queues in a browser."),
    "doctor": ("overviews", "Find problems and say how to solve them."),
    "top": ("overviews", "Show queues, consumers and what is wrong, live, in the terminal."),
    "schema": ("schema", "Install, upgrade, inspect or remove the schema pgq."),
    "queue": ("queue", "Create, configure, inspect or drop queues."),
    "consumer": ("consumer", "Register, configure, inspect or run consumers."),
    "event": ("event", "Insert, list or cancel events; manage those that wait or are dead."),
    "capture": ("capture", "Turn changes of tables into events; copy the rows that are there."),
    "cron": ("cron", "Insert events by the clock: add, list, pause or remove cron entries."),
    "archive": ("archive", "Keep events in files or a table for longer than the queue does."),
    "pipeline": ("pipeline", "Stream a queue's events to files, with Spark."),
    "ticker": ("ticker", "Run the daemon that ticks, retries and rotates, or show its status."),
}


class App(Noun):
    """The root command. It turns any error into one line on stderr and an exit code.

    A command may return its exit code. Its module is imported when it is called, so that
    ``--help`` answers at once.
    """

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Name the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; None if the name is unknown."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"pgqpy.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit the process."""
        extra["standalone_mode"] = False
        _open_missing_streams()
        _write_any_text()
        # Warnings of psycopg are lines of a daemon's log. Without a log, Python prints them.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        try:
            result = super().main(*args, **extra)
            sys.stdout.flush()
        except BaseException as exc:  # noqa: BLE001  # the one place that turns any error into a line
            sys.exit(failures.report(exc))
        sys.exit(result if isinstance(result, int) else 0)


def _open_missing_streams() -> None:
    """Open /dev/null in place of the streams that the shell closed (`>&-`).

    Otherwise the connection to the server would get the file descriptor of standard output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004  # standard error
        pass
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # open to the end


def _write_any_text() -> None:
    """Escape characters that the encoding of stdout lacks, as Python does on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="backslashreplace")


@click.group(cls=App, epilog=EPILOG, context_settings=SETTINGS)
@dsn_option(envvar="PGQPY_DSN")
@click.version_option(package_name="pgqpy", message="pgqpy %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """PGQ for Python: an event queue inside PostgreSQL.

    --dsn, PGQPY_DSN or libpq's own variables (PGHOST, PGDATABASE, PGSERVICE, ...) name the
    database. Keep the password in ~/.pgpass. Every command has --help.
    """
    ctx.ensure_object(Target)


def main(args: list[str] | None = None) -> NoReturn:
    """Run ``pgqpy`` with these arguments, or with those of the process, and exit."""
    app.main(args, prog_name="pgqpy")
