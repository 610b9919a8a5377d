"""Times on the command line: ISO 8601, or a duration before now; and durations."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, overload

import click

from pgqpy.texts import UNITS

if TYPE_CHECKING:
    Moment = datetime | timedelta

DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(d|h|min|s)", re.ASCII)
SECONDS = {unit: seconds for seconds, unit in UNITS}
WRITE = "write 2026-01-31T14:00, 2026-01-31, or 90s, 30min, 2h, 7d for so long ago"


def parse_timedelta(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> timedelta | None:
    """Return a length of time."""
    if value is None:
        return None
    with suppress(OverflowError):
        length = _from_duration(value)
        if length is not None:
            return length
    raise click.BadParameter(f"{value!r} is no length of time: write 90s, 30min, 2h, 7d")


def _from_duration(text: str) -> timedelta | None:
    """Return None for a text of another form; OverflowError if it is too long."""
    found = DURATION.fullmatch(text.strip())
    return timedelta(seconds=float(found[1]) * SECONDS[found[2]]) if found else None


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
