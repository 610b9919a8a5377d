"""Calls for producers: inserting events. They need the role pgq_writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls import payload
from pgqpy.calls._call import Call, queue_call, value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls._call import Row
    from pgqpy.calls.json_values import Default
    from pgqpy.calls.payload import Payload


def insert_event(
    queue: str, *fields: Payload, limit: int, default: Default | None = None
) -> Call[int]:
    """Insert one event, of a type, data and four extras; return its id."""
    octets = payload.encode(fields, limit, default)
    texts = (None if each is None else each.decode() for each in octets)
    params = (check.name("queue", queue), *texts)
    sql = """
        select pgq.insert_event(%s::text, %s::text, %s::text,
                                %s::text, %s::text, %s::text, %s::text)"""
    return Call("insert_event", sql, params, value, {"queue": queue})


def table_to_load(queue: str) -> Call[str]:
    """Give the transaction its id, and then name the table as current_event_table does.

    In this order: a tick or rotation in between knows of the load. current_event_table is
    volatile, so it looks with a snapshot of its own, taken after the first column's call.
    """
    sql = "select pg_catalog.txid_current(), pgq.current_event_table(%s::text)::regclass::text"
    return queue_call("current_event_table", sql, queue, decode=_second)


def _second(rows: list[Row]) -> str:
    """Read the second column of the one row."""
    return str(rows[0][1])


def transaction_id() -> Call[int]:
    """Give the transaction its id, and so begin one where the connection is not in autocommit."""
    return Call("txid_current", "select pg_catalog.txid_current()", (), value)


def open_stage(queue: str, writer: str, epoch: int | None) -> Call[int | None]:
    """Make the transaction a stage; return its random id. None: the epoch is committed already."""
    more = (check.name("writer", writer), check.maybe_bigint("epoch", epoch))
    sql = "select pgq.open_stage(%s::text, %s::text, %s::bigint)"
    return queue_call("open_stage", sql, queue, *more, pgqpy_only=True)


def commit_stage(
    queue: str,
    writer: str,
    epoch: int | None,
    stages: Iterable[int],
    events: int,
    fingerprint: int | None = None,
) -> Call[int]:
    """Release the events of the stages: 1 = done, 0 = it was done before."""
    more = (
        check.name("writer", writer),
        check.maybe_bigint("epoch", epoch),
        [check.bigint("stage", stage) for stage in stages],
        check.bigint("events", events),
        check.maybe_bigint("fingerprint", fingerprint),
    )
    sql = """
        select pgq.commit_stage(%s::text, %s::text, %s::bigint, %s::bigint[],
                                %s::bigint, %s::bigint)"""
    return queue_call("commit_stage", sql, queue, *more, pgqpy_only=True)


def drop_stage(queue: str, writer: str) -> Call[int]:
    """Drop the stages of a writer that were not released; return their number."""
    sql = "select pgq.drop_stage(%s::text, %s::text)"
    return queue_call("drop_stage", sql, queue, check.name("writer", writer), pgqpy_only=True)
