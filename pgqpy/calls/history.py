"""Calls for what happened: the history of a queue. They need pgq_dashboard or pgq_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, queue_call, records
from pgqpy.records import HistoryPoint

if TYPE_CHECKING:
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
