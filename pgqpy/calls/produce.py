"""Calls for producers: inserting events. They need the role pgq_writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgqpy.calls import _check as check
from pgqpy.calls import payload
from pgqpy.calls._call import Call, queue_call, value
from pgqpy.calls.delayed import time_and_delay
from pgqpy.errors import InvalidArgument
from pgqpy.records import InsertedOnce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, timedelta

    from pgqpy.calls._call import Row
    from pgqpy.calls.arrays import Piece
    from pgqpy.calls.json_values import Default
    from pgqpy.calls.payload import Payload


def insert_event(
    queue: str, *fields: Payload, limit: int, default: Default | None = None
) -> Call[int]:
    """Insert one event, of a type, data and four extras; return its id."""
    params = (check.name("queue", queue), *_texts(fields, limit, default))
    sql = """
        select pgq.insert_event(%s::text, %s::text, %s::text,
                                %s::text, %s::text, %s::text, %s::text)"""
    return Call("insert_event", sql, params, value, {"queue": queue})


def insert_event_once(
    queue: str,
    dedup_key: str | None,
    dedup_for: check.Interval | None,
    *fields: Payload,
    due: timedelta | datetime | None,
    limit: int,
    default: Default | None = None,
) -> Call[InsertedOnce]:
    """Insert one event unless its key is taken; return its id, or the first one's.

    `due`: as in insert_event_at; None: at once.
    """
    if dedup_key is None or dedup_for is None:
        parameter = "dedup_key" if dedup_key is None else "dedup_for"
        msg = "dedup_key and dedup_for belong together: a key, and for how long it is taken"
        raise InvalidArgument(msg, parameter=parameter)
    more = (
        check.name("dedup_key", dedup_key),
        check.required_interval("dedup_for", dedup_for),
        *time_and_delay(due),
        *_texts(fields, limit, default),
    )
    sql = """
        select ev_id, is_new
          from pgq.insert_event_once(
            i_queue_name => %s::text, i_key => %s::text, i_window => %s::interval,
            i_deliver_at => coalesce(%s::timestamptz,
                pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval),
            ev_type => %s::text, ev_data => %s::text, ev_extra1 => %s::text,
            ev_extra2 => %s::text, ev_extra3 => %s::text, ev_extra4 => %s::text)"""
    return queue_call("insert_event_once", sql, queue, *more, decode=_inserted, pgqpy_only=True)


def _inserted(rows: list[Row]) -> InsertedOnce:
    """Read the one row."""
    return InsertedOnce(*rows[0])


def _texts(fields: Iterable[Payload], limit: int, default: Default | None) -> Iterator[str | None]:
    """Return an event's fields as they are stored."""
    octets = payload.encode(fields, limit, default)
    return (None if each is None else each.decode() for each in octets)


def insert_events(queue: str, piece: Piece) -> Call[list[int]]:
    """Insert the events of a piece with one call; return their ids in order."""
    sql = """
        select pgq.insert_events(%s::text, %s::text[], %s::text[],
                                 %s::text[], %s::text[], %s::text[], %s::text[])"""
    params = (check.name("queue", queue), *piece.columns)
    error_data = {"queue": queue, "index": piece.first}
    return Call("insert_events", sql, params, _ids, error_data, pgqpy_only=True)


def _ids(rows: list[Row]) -> list[int]:
    """Read the one column."""
    return [row[0] for row in rows]


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


def open_stage(queue: str, writer: str, epoch: int | None = None) -> Call[int | None]:
    """Make this transaction a stage; return the stage's random id. None: the epoch is committed.

    For parallel tasks that may be repeated. Consumers get none of the events that a task's
    transaction inserts into the queue before `commit_stage` names its stage.

    `writer` is the name of the writer, such as a Spark query's id. `epoch` is the number of what it
    writes now, greater each time; None: all, and never again.

    Raises:
        InvalidArgument: the transaction is a stage of something else.
        QueueNotFound, QueueRefused: the queue refused.
    """
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
    """Release the events of these stages, all in one batch: 1. 0: it was done before.

    `stages` are the ids that `open_stage` returned, for the same writer and epoch, to the tasks
    whose transactions committed; `events` is the number of events that they inserted.
    `fingerprint` is a hash of the events that does not depend on their order, 64 bits with a sign:
    an epoch that is repeated must have the same. None: nothing is compared.

    Raises:
        InvalidArgument: a stage is named twice.
        StageLost: not all of these stages wait any more, or (PQ019) a fingerprint is given, and the
            epoch was committed with another one, or a later epoch was; nothing was released.
        QueueNotFound, QueueRefused: the queue refused.
    """
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
