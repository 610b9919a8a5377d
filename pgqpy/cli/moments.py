"""Times on the command line: ISO 8601, or a duration before now; and durations."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, overload

import click

if TYPE_CHECKING:
    Moment = datetime | timedelta

# PostgreSQL reads each of these texts as the same interval, so settings of queues accept them too.
UNIT = "weeks?|w|days?|d|hours?|h|minutes?|min|seconds?|s"
PART = re.compile(rf"(\d+(?:\.\d+)?) ?({UNIT}) ?", re.ASCII)
DURATION = re.compile(rf"(?:{PART.pattern})+", re.ASCII)
SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}  # by the unit's first letter
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
