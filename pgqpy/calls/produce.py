"""Calls for producers: events at once, later or in stages, and their cancellation.

They need pgq_writer; get_delayed_events and skip_event need pgq_reader.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from pgqpy.calls import _check as check
from pgqpy.calls import payload
from pgqpy.calls._call import Call, consumer_call, queue_call, records, value
from pgqpy.errors import InvalidArgument
from pgqpy.records import (
    Cancellation,
    DelayedCount,
    DelayedEvent,
    DelayedMoves,
    Event,
    InsertedOnce,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta

    from pgqpy.calls._call import Row
    from pgqpy.calls.bulk import Piece
    from pgqpy.calls.payload import Dataclass, Default, Payload
    from pgqpy.typed_events import TypedEvent

    Events = Event | int | Iterable[Event | int]


def insert_event(
    queue: str, *fields: Payload, limit: int, default: Default | None = None
) -> Call[int]:
    """Insert one event, of a type, data and four extras; return its id."""
    params = (check.name("queue", queue), *payload.texts(fields, limit, default))
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
        *payload.texts(fields, limit, default),
    )
    sql = """
        select ev_id, is_new
          from pgq.insert_event_once(
            i_queue_name => %s::text, i_key => %s::text, i_window => %s::interval,
            i_deliver_at => coalesce(%s::timestamptz,
                pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval),
            ev_type => %s::text, ev_data => %s::text, ev_extra1 => %s::text,
            ev_extra2 => %s::text, ev_extra3 => %s::text, ev_extra4 => %s::text)"""
    return queue_call("insert_event_once", sql, queue, *more, decode=_inserted)


def _inserted(rows: list[Row]) -> InsertedOnce:
    """Read the one row."""
    return InsertedOnce(*rows[0])


def insert_one(
    queue: str,
    *fields: Payload,
    delay: check.Interval | None = None,
    deliver_at: datetime | None = None,
    dedup_key: str | None = None,
    dedup_for: check.Interval | None = None,
    limit: int = payload.PAYLOAD_LIMIT,
    default: Default | None = None,
) -> Call[int]:
    """Insert one event, at once, later or unless its key is taken; return its id.

    What `Client.insert_event` sends, and every other way to insert one event.
    """
    due = due_time(delay, deliver_at)
    if dedup_key is not None or dedup_for is not None:
        once = insert_event_once(
            queue, dedup_key, dedup_for, *fields, due=due, limit=limit, default=default
        )
        return Call(once.function, once.sql, once.params, value, once.error_data)
    if due is not None:
        return insert_event_at(queue, due, *fields, limit=limit, default=default)
    return insert_event(queue, *fields, limit=limit, default=default)


class EmitOptions(TypedDict, total=False):
    """What `emit` takes besides queue, type and data; the names of `Client.insert_event`."""

    key: Payload  # extra1
    extra2: Payload
    extra3: Payload
    extra4: Payload
    delay: check.Interval | None
    deliver_at: datetime | None
    dedup_key: str | None
    dedup_for: check.Interval | None
    json_default: Default | None


def emit(
    queue: str | TypedEvent | Dataclass,
    type: str | None = None,
    data: Payload = None,
    *,
    key: Payload = None,
    extra2: Payload = None,
    extra3: Payload = None,
    extra4: Payload = None,
    json_default: Default | None = None,
    **more: Any,
) -> Call[int]:
    """Insert one event over the connection of another driver: `key` is its extra1.

    A typed event in place of the queue says all but the options. Raises as `Client.insert` then.
    """
    if not isinstance(queue, str):
        from pgqpy.typed_events import row_of  # noqa: PLC0415  # pydantic takes 0.1 s

        if (type, data, key) != (None, None, None):
            raise TypeError("a typed event has its type, data and key: give only options with it")
        queue, *first = row_of(queue)
    else:
        first = [type, data, key]
    return insert_one(queue, *first, extra2, extra3, extra4, default=json_default, **more)


def insert_events(queue: str, piece: Piece) -> Call[list[int]]:
    """Insert the events of a piece with one call; return their ids in order."""
    sql = """
        select pgq.insert_events(%s::text, %s::text[], %s::text[],
                                 %s::text[], %s::text[], %s::text[], %s::text[])"""
    params = (check.name("queue", queue), *piece.columns)
    error_data = {"queue": queue, "index": piece.first}
    return Call("insert_events", sql, params, _ids, error_data)


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
    return queue_call("open_stage", sql, queue, *more)


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
    return queue_call("commit_stage", sql, queue, *more)


def drop_stage(queue: str, writer: str) -> Call[int]:
    """Drop the stages of a writer that were not released; return their number."""
    sql = "select pgq.drop_stage(%s::text, %s::text)"
    return queue_call("drop_stage", sql, queue, check.name("writer", writer))


def due_time(
    delay: check.Interval | None, deliver_at: datetime | None
) -> timedelta | datetime | None:
    """Take one of the two, or none: a length of time from now, or a time."""
    if delay is not None and deliver_at is not None:
        msg = "delay and deliver_at exclude each other: give one of them"
        raise InvalidArgument(msg, parameter="delay")
    if deliver_at is not None:
        return check.timestamp("deliver_at", deliver_at)
    return check.interval("delay", delay)


def insert_event_at(
    queue: str,
    due: timedelta | datetime,
    *fields: Payload,
    limit: int,
    default: Default | None = None,
) -> Call[int]:
    """Insert one event that is due at a time, or after a delay by the server's clock."""
    texts = payload.texts(fields, limit, default)
    sql = """
        select pgq.insert_event_at(
            %s::text, coalesce(%s::timestamptz,
                pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval),
            %s::text, %s::text, %s::text, %s::text, %s::text, %s::text)"""
    return queue_call("insert_event_at", sql, queue, *time_and_delay(due), *texts)


def time_and_delay(
    due: timedelta | datetime | None,
) -> tuple[datetime | None, timedelta | None]:
    """Return what due_time found as two parameters, of which one is None at least."""
    return (due, None) if isinstance(due, datetime) else (None, due)


def time_of(due: timedelta | datetime) -> Call[datetime]:
    """Return the time, by the server's clock: one for all pieces of a load."""
    sql = """
        select coalesce(%s::timestamptz,
            pg_catalog.clock_timestamp() operator(pg_catalog.+) %s::interval)"""
    return Call("clock_timestamp", sql, time_and_delay(due), value)


def insert_events_at(queue: str, time: datetime, piece: Piece) -> Call[list[int]]:
    """Insert the events of a piece, due at a time, with one call; return their ids in order."""
    sql = """
        select pgq.insert_events_at(%s::text, %s::timestamptz, %s::text[], %s::text[], %s::text[],
                                    %s::text[], %s::text[], %s::text[])"""
    params = (check.name("queue", queue), time, *piece.columns)
    error_data = {"queue": queue, "index": piece.first}
    return Call("insert_events_at", sql, params, _ids, error_data)


def insert_piece(queue: str, piece: Piece, time: datetime | None) -> Call[list[int]]:
    """Insert the events of a piece with one call, due at a time or at once."""
    return insert_events(queue, piece) if time is None else insert_events_at(queue, time, piece)


def get_delayed_events(queue: str, limit: int | None) -> Call[list[DelayedEvent]]:
    """List the delayed events of a queue, the one that is due first."""
    sql = """
        select ev_deliver_at, ev_id, ev_time, ev_txid, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.get_delayed_events(%s::text, %s::integer)"""
    more = check.count("limit", limit)
    decode = records(DelayedEvent)
    return queue_call("get_delayed_events", sql, queue, more, decode=decode)


def get_delayed_counts(limit: int | None = 10_000) -> Call[list[DelayedCount]]:
    """Count the delayed events of each queue, and say for how long the first one is due.

    Each number is counted up to `limit`, so a million of them cost little; None: all.
    """
    sql = "select queue_name, delayed_events, overdue from pgq.get_delayed_counts(%s::integer)"
    params = (check.count("limit", limit),)
    return Call("get_delayed_counts", sql, params, records(DelayedCount))


def move_delayed_events(left_out: Iterable[str] = ()) -> Call[DelayedMoves]:
    """Move delayed events that are due into their queues. Repeat until none was moved.

    `left_out`: queues to leave alone. Needs the role pgq_ticker. Raises WrongTransaction.
    """
    sql = "select moved, next_delayed, next_retry from pgq.move_delayed_events(%s::text[])"
    names = [check.name("queue", each) for each in left_out]
    return Call("move_delayed_events", sql, (names,), _moves)


def _moves(rows: list[tuple[int, timedelta | None, timedelta | None]]) -> DelayedMoves:
    return DelayedMoves(*rows[0])


def cancel_event(queue: str, events: Events) -> Call[list[Cancellation]]:
    """Hide events from all consumers that have not had them."""
    sql = """
        select ev_id, consumer_name, state from pgq.cancel_event(%s::text, %s::bigint[])"""
    decode = records(Cancellation)
    return queue_call("cancel_event", sql, queue, _event_ids(events), decode=decode)


def skip_event(queue: str, consumer: str, events: Events) -> Call[list[Cancellation]]:
    """Hide events from one consumer."""
    sql = """
        select ev_id, consumer_name, state
          from pgq.skip_event(%s::text, %s::text, %s::bigint[])"""
    decode = records(Cancellation)
    return consumer_call("skip_event", sql, queue, consumer, _event_ids(events), decode=decode)


def _event_ids(events: Events) -> list[int]:
    if isinstance(events, (Event, int)):  # an Event is a tuple too
        return [check.event_id(events)]
    if isinstance(events, str):
        msg = f"events are Events or ids, not the text {events!r}"
        raise InvalidArgument(msg, parameter="events")
    return [check.event_id(event) for event in events]
