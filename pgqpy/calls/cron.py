"""Calls for cron entries. fire_cron needs pgq_ticker, a change pgq_admin; everybody may list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pgqpy.calls import _check as check
from pgqpy.calls import payload
from pgqpy.calls._call import Call, Row, records, value
from pgqpy.records import CronEntry

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from typing_extensions import LiteralString

    from pgqpy.calls.payload import Default, Payload

Missed = Literal["one", "all", "skip"]
"""What is done about times at which no ticker ran."""


def add_cron(
    name: str,
    queue: str,
    *fields: Payload,
    schedule: str,
    timezone: str,
    missed: Missed,
    limit: int,
    default: Default | None = None,
) -> Call[int]:
    """Add or change an entry, of a queue, schedule, type, data and four extras: 1 it is new."""
    from pgqpy.schedule import Schedule  # noqa: PLC0415  # 50 ms, for this call only

    texts = (check.name("schedule", schedule), check.name("timezone", timezone))
    Schedule(*texts)
    kind, data, *extras = payload.texts(fields, limit, default)
    sql = """
        select pgq.add_cron(%s::text, %s::text, %s::text, %s::text, %s::text, %s::text, %s::text,
                            %s::text, %s::text, %s::text, %s::text)"""
    params = (
        *(check.name("name", name), check.name("queue", queue), kind, data),
        *(" ".join(schedule.split()), timezone, check.name("missed", missed), *extras),
    )
    return Call("add_cron", sql, params, value, {"queue": queue, "name": name})


def remove_cron(name: str) -> Call[int]:
    """Remove an entry."""
    return _entry_call("remove_cron", "select pgq.remove_cron(%s::text)", name)


def pause_cron(name: str) -> Call[int]:
    """Stop a cron entry until `resume_cron`: 1, or 0 if it was paused. Raises NotFound."""
    return _entry_call("pause_cron", "select pgq.pause_cron(%s::text)", name)


def resume_cron(name: str) -> Call[int]:
    """End the pause of a cron entry: 1, or 0 if it was not paused. Raises NotFound.

    The times in the pause are not made up for.
    """
    return _entry_call("resume_cron", "select pgq.resume_cron(%s::text)", name)


def run_cron(name: str) -> Call[int]:
    """Insert the event of a cron entry now, paused or not; return the event's id.

    The schedule goes on as if nothing had happened. Raises NotFound, QueueRefused.
    """
    return _entry_call("run_cron", "select pgq.run_cron(%s::text)", name)


def fire_cron(
    name: str,
    version: UUID,
    due: datetime | None,
    time: datetime | None,
    next_due: datetime,
) -> Call[int | None]:
    """Insert the event of a planned time and plan the next: for tickers (pgq_ticker).

    `due` is the entry's `next_due`, `time` the event's time (None: no event). Returns the event's
    id; None if another ticker was faster, or the entry has changed.
    """
    sql = """
        select pgq.fire_cron(%s::text, %s::uuid, %s::timestamptz, %s::timestamptz,
                             %s::timestamptz)"""
    return _entry_call("fire_cron", sql, name, version, due, time, next_due)


def _entry_call(function: str, sql: LiteralString, name: str, *more: object) -> Call[Any]:
    params = (check.name("name", name), *more)
    return Call(function, sql, params, value, {"name": name})


_CRON_INFO = """
    select cron_name, queue_name, ev_type, schedule, timezone, missed, paused_since, next_due,
           last_due, planned_at, version, read_at
      from pgq.get_cron_info(%s::text)"""


def get_cron_info(name: str | None) -> Call[list[CronEntry]]:
    """List one entry, or all (None)."""
    params: Row = (check.maybe_name("name", name),)
    return Call("get_cron_info", _CRON_INFO, params, records(CronEntry))
