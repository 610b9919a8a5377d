"""Options that commands share, and the database that they name."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from pgqpy import Client, ConnectionFailed
from pgqpy.client import connect_as_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Command = TypeVar("Command", bound=Callable[..., Any])

LOCK_TIMEOUT = "3s"
MOST_ROWS = 1_000_000  # that one command shows


@dataclass
class Target:
    """The database of a command. With an empty `dsn`, libpq's ``PG*`` variables name it."""

    dsn: str = ""

    @contextmanager
    def client(
        self, *, any_owner: bool = False, any_session: bool = False, waits: bool = False
    ) -> Iterator[Client]:
        """Open a client in autocommit mode; close it at the end of the block.

        A statement fails that waits for a lock for more than LOCK_TIMEOUT, unless `waits`. The
        error names the session that has to end, if a table is locked. With `any_session`, a pooler
        may share the session. Raises SchemaRefused if another role owns the schema pgq; with
        `any_owner`, the command checks that itself.
        """
        try:
            client = connect_as_tool(self.dsn, any_owner=any_owner, any_session=any_session)
        except ConnectionFailed as exc:
            if exc.__cause__ is None:  # the DSN itself is wrong
                raise click.UsageError(str(exc)) from exc
            raise
        with client:
            if not waits:
                timeout = "select set_config('lock_timeout', %s, false)"
                client.connection.execute(timeout, [LOCK_TIMEOUT])
            yield client


def _remember_dsn(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    target = ctx.ensure_object(Target)
    if value is not None:
        target.dsn = value


NAMED_BY = "[env: PGQPY_DSN, else libpq's PG*]"


def dsn_option(envvar: str | None = None, named_by: str = NAMED_BY) -> Callable[[Command], Command]:
    """Add ``--dsn``. It may stand before or after the command; the last one counts.

    `named_by` tells in the help what names the database without it.
    """
    return click.option(
        "--dsn",
        metavar="DSN",
        envvar=envvar,
        expose_value=False,
        callback=_remember_dsn,
        help=f"The database: URI or key=value string.  {named_by}",
    )


def limit_option(default: int, what: str = "rows") -> Callable[[Command], Command]:
    """Add ``--limit``: how many rows to show at most. `what` names them in the help."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0, max=MOST_ROWS),
        default=default,
        show_default=True,
        help=f"Show at most this many {what}.",
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
pass_target = click.make_pass_decorator(Target, ensure=True)


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN, which click's own range accepts."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert a word to a number in the range."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


def split_settings(settings: Iterable[str], example: str) -> list[tuple[str, str]]:
    """Split ``name=value`` words; who stores the settings checks names and values."""
    pairs = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals):
            raise click.UsageError(f"'{setting}' is no setting: write name=value, as {example}")
        pairs.append((name, value))
    return pairs


def on_terminal() -> bool:
    """Say whether standard input is a terminal, so that a user can answer."""
    return sys.stdin.isatty()


def named_dsn(ctx: click.Context, target: Target) -> str | None:
    """Return the value of ``--dsn``, before or after the command; None if it was not given.

    PGQPY_DSN names the application's database: a trial uses it only if --dsn says so.
    """
    named = any(
        place.get_parameter_source("dsn") is ParameterSource.COMMANDLINE
        for place in (ctx, ctx.find_root())
    )
    return target.dsn if named else None


def on_trial(command: Command) -> Command:
    """Give a command that starts a PostgreSQL of its own ``--dsn`` and the `Target`."""
    option = dsn_option(named_by="[default: a temporary PostgreSQL]")
    return option(pass_target(command))  # type: ignore[return-value]  # as in connected


def connected(command: Command) -> Command:
    """Give a command ``--dsn`` and, as its first argument, the `Target`."""
    return dsn_option()(pass_target(command))  # type: ignore[return-value]  # click types the new signature
