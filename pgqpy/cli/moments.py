"""Times on the command line: ISO 8601, or a duration before now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from pgqpy.texts import UNITS

if TYPE_CHECKING:
    Moment = datetime | timedelta

DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(d|h|min|s)", re.ASCII)
SECONDS = {unit: seconds for seconds, unit in UNITS}
WRITE = "write 2026-01-31T14:00, 2026-01-31, or 90s, 30min, 2h, 7d for so long ago"


def parse_moment(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Moment | None:
    """Return a time, in the zone of this machine if it names none; or how long ago it is."""
    if value is None:
        return None
    found = DURATION.fullmatch(value.strip())
    try:
        if found:
            return timedelta(seconds=float(found[1]) * SECONDS[found[2]])
        time = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", value.strip()))
        return time if time.tzinfo else time.astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r} is no time: {WRITE}") from None


def to_time(moment: Moment | None, now: datetime) -> datetime | None:
    """Return the time; UsageError if it is too long ago for a date."""
    if not isinstance(moment, timedelta):
        return moment
    try:
        return now - moment
    except OverflowError:
        raise click.UsageError(f"{moment.days} days ago is before the year 1") from None
