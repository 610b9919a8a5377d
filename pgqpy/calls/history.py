"""Calls for what happened: the history of a queue, and who changed what.

They need pgq_dashboard; that for the history pgq_reader, those for changes pgq_admin will do too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, queue_call, records, value
from pgqpy.calls.json_values import Misfit, dumps
from pgqpy.errors import InvalidArgument
from pgqpy.records import Change, HistoryPoint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def get_history(
    queue: str, since: datetime | None, consumer: str | None
) -> Call[list[HistoryPoint]]:
    """Return the history of a queue or a consumer."""
    sql = """
        select hist_time, ev_per_sec, lag, pending_events, retry_events, dead_events, parked_events
          from pgq.get_history(%s::text, %s::timestamptz, %s::text)"""
    start = None if since is None else check.timestamp("since", since)
    name, decode = check.maybe_name("consumer", consumer), records(HistoryPoint)
    return queue_call(
        "get_history", sql, queue, start, name, decode=decode, pgqpy_only=True, consumer=consumer
    )


def begin_change(
    action: str,
    queue: str | None,
    consumer: str | None,
    arguments: Mapping[str, object] | None,
    user: str | None,
) -> Call[int]:
    """Note a change before it is made; return its id."""
    sql = "select pgq.begin_change(%s::text, %s::text, %s::text, %s::jsonb, %s::text)"
    try:
        written = None if arguments is None else dumps(arguments)
    except Misfit as exc:
        msg = f"arguments: {exc}"
        raise InvalidArgument(msg, parameter="arguments") from None
    params = (
        check.name("action", action),
        check.maybe_name("queue", queue),
        check.maybe_name("consumer", consumer),
        written,
        check.maybe_name("user", user),
    )
    return Call("begin_change", sql, params, value, pgqpy_only=True)


def end_change(change: int, outcome: str) -> Call[int]:
    """Note how a change ended."""
    sql = "select pgq.end_change(%s::bigint, %s::text)"
    params = (check.bigint("change", change), check.name("outcome", outcome))
    return Call("end_change", sql, params, value, pgqpy_only=True)


def get_changes(limit: int, before: int | None) -> Call[list[Change]]:
    """List changes, the newest first."""
    sql = """
        select change_id, change_time, login_name, user_name, action, queue_name, consumer_name,
               arguments, end_time, outcome
          from pgq.get_changes(%s::integer, %s::bigint)"""
    params = (check.count("limit", limit), check.maybe_bigint("before", before))
    return Call("get_changes", sql, params, records(Change), pgqpy_only=True)
