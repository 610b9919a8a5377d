"""Options and values that commands share, the group of a noun, and the database."""

from __future__ import annotations

import math
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, overload

import click
from click.core import ParameterSource

from pgqpy import Client, ConnectionFailed
from pgqpy.client import connect_as_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Command = TypeVar("Command", bound=Callable[..., Any])
    Moment = datetime | timedelta

LOCK_TIMEOUT = "3s"
MOST_ROWS = 1_000_000  # that one command shows
# PostgreSQL reads each of these texts as the same interval, so settings of queues accept them too.
UNIT = "weeks?|w|days?|d|hours?|h|minutes?|min|seconds?|s"
PART = re.compile(rf"(\d+(?:\.\d+)?) ?({UNIT}) ?", re.ASCII)
DURATION = re.compile(rf"(?:{PART.pattern})+", re.ASCII)
SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}  # by the unit's first letter
WRITE = "write 2026-01-31T14:00, 2026-01-31, or 90s, 30min, 2h, 7d for so long ago"


class Noun(click.Group):
    """A group of commands. It names its commands to a user who misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; UsageError if there is none."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = get_close_matches(name, known, n=1, cutoff=0.75)
            others = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise click.UsageError(f"no command {name!r}: {others}", ctx)
        return super().resolve_command(ctx, args)


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
            if exc.__cause__ is None and exc.sqlstate is None:  # the DSN itself is wrong
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


def given_options(ctx: click.Context) -> dict[str, str]:
    """Return the parameters that stand on the command line, each with its name there."""
    on_line = ParameterSource.COMMANDLINE
    return {
        param.name: param.opts[-1] if param.opts[-1].startswith("-") else param.human_readable_name
        for param in ctx.command.params
        if param.name and ctx.get_parameter_source(param.name) is on_line
    }


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


def parse_timedelta(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> timedelta | None:
    """Return a length of time."""
    return to_timedelta(value)


def to_timedelta(value: str | None) -> timedelta | None:
    """Return the length of time that a word names; BadParameter if it names none."""
    if value is None:
        return None
    with suppress(OverflowError):
        length = _from_duration(value)
        if length is not None:
            return length
    raise click.BadParameter(f"{value!r} is no length of time: write 90s, 30min, 2h, 7d")


def _from_duration(text: str) -> timedelta | None:
    """Return the length of ``2h`` or ``1 day 12 hours``; None if the text has another form.

    Raises OverflowError if it is too long.
    """
    if not DURATION.fullmatch(text := text.strip()):
        return None
    return timedelta(seconds=sum(float(n) * SECONDS[unit[0]] for n, unit in PART.findall(text)))


def parse_time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    """Return a time, in the zone of this machine if it names none."""
    try:
        return None if value is None else _from_iso(value)
    except (ValueError, OverflowError):
        msg = f"{value!r} is no time: write 2026-01-31T14:00 or 2026-01-31T14:00+01:00"
        raise click.BadParameter(msg) from None


def _from_iso(text: str) -> datetime:
    time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
    return time if time.tzinfo else time.astimezone()


def parse_moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Moment | None:
    """Return a time, in the zone of this machine if it names none; or how long ago it is."""
    if value is None:
        return None
    try:
        length = _from_duration(value)
        return _from_iso(value) if length is None else length
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no time: {WRITE}") from None


@overload
def to_time(moment: Moment, now: datetime) -> datetime: ...
@overload
def to_time(moment: Moment | None, now: datetime) -> datetime | None: ...
def to_time(moment: Moment | None, now: datetime) -> datetime | None:
    """Return the time; UsageError if it is too long ago for a date."""
    if not isinstance(moment, timedelta):
        return moment
    try:
        return now - moment
    except OverflowError:
        raise click.UsageError(f"{moment.days} days ago is before the year 1") from None
