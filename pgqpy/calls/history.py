"""Calls for what happened: the history of a queue, and who changed what.

They need pgq_dashboard; that for the history pgq_reader, those for changes pgq_admin will do too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, queue_call, records, value
from pgqpy.calls.payload import Misfit, dumps
from pgqpy.errors import InvalidArgument
from pgqpy.records import HistoryPoint, NotedChange

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def get_history(
    queue: str, since: datetime | None = None, consumer: str | None = None
) -> Call[list[HistoryPoint]]:
    """Return how a queue, or one of its consumers, was: a point for each minute, oldest first.

    Args:
        queue: the queue.
        since: from this time on; None: the last 24 hours. Up to 36 hours are there.
        consumer: only this consumer; None: the worst of all, and the sums of the counts.

    The ticker writes the points, so minutes without one are missing. Raises QueueNotFound,
    ConsumerNotFound.
    """
    sql = """
        select hist_time, ev_per_sec, lag, pending_events, retry_events, dead_events
          from pgq.get_history(%s::text, %s::timestamptz, %s::text)"""
    start = None if since is None else check.timestamp("since", since)
    name, decode = check.maybe_name("consumer", consumer), records(HistoryPoint)
    return queue_call("get_history", sql, queue, start, name, decode=decode, consumer=consumer)


def begin_change(
    action: str,
    queue: str | None = None,
    consumer: str | None = None,
    arguments: Mapping[str, object] | None = None,
    *,
    user: str | None = None,
) -> Call[int]:
    """Note a change that a user is about to make; return the id for `end_change`.

    Args:
        action: what is done, such as "drop queue".
        queue: of which queue.
        consumer: of which consumer.
        arguments: the rest, at most 10,000 characters of JSON. Leave payloads out.
        user: the user, as your program knows him. The login is noted anyway.

    Call it outside a transaction, so that it stays if the change fails. Raises InvalidArgument.
    """
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
    return Call("begin_change", sql, params, value)


def end_change(change: int, outcome: str) -> Call[int]:
    """Note how a change ended: 1; 0: this login began no such change, or it ended before.

    1,000 characters of `outcome` are kept.
    """
    sql = "select pgq.end_change(%s::bigint, %s::text)"
    params = (check.bigint("change", change), check.name("outcome", outcome))
    return Call("end_change", sql, params, value)


def get_changes(limit: int = 100, before: int | None = None) -> Call[list[NotedChange]]:
    """List the changes of the last 90 days, the newest first; `before`: with lower ids.

    Raises InvalidArgument if `limit` is not between 1 and 10,000.
    """
    sql = """
        select change_id, change_time, login_name, user_name, action, queue_name, consumer_name,
               arguments, end_time, outcome
          from pgq.get_changes(%s::integer, %s::bigint)"""
    params = (check.count("limit", limit), check.maybe_bigint("before", before))
    return Call("get_changes", sql, params, records(NotedChange))
