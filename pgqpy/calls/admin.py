"""Calls for administrators: queues, consumers, configuration. Everybody may read the state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, consumer_call, queue_call, records, value
from pgqpy.records import (
    ConsumerCounts,
    ConsumerInfo,
    QueueInfo,
    QueueMetrics,
    Registration,
    RetryCount,
    RotationTable,
    StalledInfo,
)

if TYPE_CHECKING:
    from pgqpy.calls._check import Interval

    Policy = Literal["warn", "detach"]

Setting = str | int | bool | timedelta | None
"""A queue's setting: SQL text, or the Python value that says the same."""

QUEUE_SETTINGS = (
    *("rotation_period", "retention", "ticker_max_count", "ticker_max_lag", "ticker_idle_period"),
    *("ticker_paused", "external_ticker", "disable_insert", "per_tx_limit", "ntables"),
    "extra_maint",
)


def create_queue(queue: str) -> Call[int]:
    """Create a queue: 1 created, 0 was there."""
    return queue_call("create_queue", "select pgq.create_queue(%s::text)", queue)


def drop_queue(queue: str, *, force: bool = False) -> Call[int]:
    """Drop a queue, by force with its consumers."""
    return queue_call("drop_queue", "select pgq.drop_queue(%s::text, %s::boolean)", queue, force)


def set_queue_config(queue: str, param: str, setting: Setting) -> Call[int]:
    """Change one setting of a queue."""
    text = None if setting is None else check.name("value", _setting(setting))
    more = (check.name("param", param), text)
    sql = "select pgq.set_queue_config(%s::text, %s::text, %s::text)"
    return queue_call("set_queue_config", sql, queue, *more, parameter=param)


def _setting(setting: Setting) -> str:
    if isinstance(setting, bool):
        return "true" if setting else "false"
    if isinstance(setting, timedelta):
        return f"{setting.days} days {setting.seconds} seconds {setting.microseconds} microseconds"
    return str(setting)


def rename_queue(queue: str, new_name: str) -> Call[int]:
    """Rename a queue. What belongs to it follows; a call by the old name raises QueueNotFound.

    Raises QueueNotFound, WrongTransaction, InvalidArgument for a name that is not valid or taken,
    and psycopg's DependentObjectsStillExist, which names triggers that have the old name.
    """
    sql = "select pgq.rename_queue(%s::text, %s::text)"
    name = check.name("new_name", new_name)
    return queue_call("rename_queue", sql, queue, name, parameter="new_name")


def repair_queue(queue: str) -> Call[int]:
    """Make a queue usable again after a restore where transaction ids are smaller.

    Raises QueueNotFound.
    """
    sql = "select pgq.repair_queue(%s::text)"
    return queue_call("repair_queue", sql, queue)


_QUEUE_INFO = """
    select queue_name, queue_ntables, queue_cur_table, queue_rotation_period, queue_switch_time,
           queue_external_ticker, queue_ticker_paused, queue_ticker_max_count,
           queue_ticker_max_lag, queue_ticker_idle_period, ticker_lag, ev_per_sec, ev_new,
           last_tick_id
      from pgq.get_queue_info(%s::text)"""


def get_queue_info(queue: str | None) -> Call[list[QueueInfo]]:
    """Return the settings and the state of one queue, or of all (None)."""
    params: Row = (check.maybe_name("queue", queue),)
    return Call("get_queue_info", _QUEUE_INFO, params, records(QueueInfo), {"queue": queue})


def get_queue_metrics(queue: str | None = None) -> Call[list[QueueMetrics]]:
    """Return how many events one queue keeps, or each of all: since when, in how many bytes.

    It reads no event, so it costs the same however many there are.
    """
    sql = """
        select queue_name, queue_created, oldest_event_age, newest_event_age, estimated_events,
               total_bytes
          from pgq.get_queue_metrics(%s::text)"""
    params: Row = (check.maybe_name("queue", queue),)
    return Call("get_queue_metrics", sql, params, records(QueueMetrics))


_CONSUMER_INFO = """
    select queue_name, consumer_name, lag, last_seen, last_tick, current_batch, next_tick,
           pending_events
      from pgq.get_consumer_info(%s::text, %s::text)"""


def get_consumer_info(queue: str | None, consumer: str | None) -> Call[list[ConsumerInfo]]:
    """Return the positions of consumers: of one queue, by one name, or all."""
    params: Row = (check.maybe_name("queue", queue), check.maybe_name("consumer", consumer))
    error_data = {"queue": queue, "consumer": consumer}
    return Call("get_consumer_info", _CONSUMER_INFO, params, records(ConsumerInfo), error_data)


def get_consumer_counts(limit: int | None = 10_000) -> Call[list[ConsumerCounts]]:
    """Count each consumer's events in the retry queue, and its dead events.

    Each number is counted up to `limit`, so a million of them cost little; None: all.
    """
    sql = """
        select queue_name, consumer_name, retry_events, dead_events
          from pgq.get_consumer_counts(%s::integer)"""
    params: Row = (check.count("limit", limit),)
    return Call("get_consumer_counts", sql, params, records(ConsumerCounts))


def get_retry_counts(
    queue: str, consumer: str, limit: int | None = 10_000
) -> Call[list[RetryCount]]:
    """Count a consumer's events in the retry queue by when they are due, the soonest first.

    At most `limit` events are counted; None: all. Raises ConsumerNotFound.
    """
    sql = """
        select due_within, retry_events
          from pgq.get_retry_counts(%s::text, %s::text, %s::integer)"""
    most, decode = check.count("limit", limit), records(RetryCount)
    return consumer_call("get_retry_counts", sql, queue, consumer, most, decode=decode)


_REGISTRATIONS = """
    select q.queue_name, c.co_name,
           coalesce(r.sub_mode, 'plain'), r.sub_filter
      from pgq.registration r
      join pgq.queue q on q.queue_id operator(pg_catalog.=) r.sub_queue
      join pgq.consumer c on c.co_id operator(pg_catalog.=) r.sub_consumer
     where r.sub_parent is null
       and q.queue_name operator(pg_catalog.=) coalesce(%s::text, q.queue_name)
       and c.co_name operator(pg_catalog.=) coalesce(%s::text, c.co_name)
     order by 1, 2"""


def get_registrations(
    queue: str | None = None, consumer: str | None = None
) -> Call[list[Registration]]:
    """Return how consumers run: of one queue, of one name, or all, without subconsumers."""
    params: Row = (check.maybe_name("queue", queue), check.maybe_name("consumer", consumer))
    return Call("registration", _REGISTRATIONS, params, records(Registration))


def schema_version() -> Call[int]:
    """Return the version of the schema's tables."""
    return Call("schema_version", "select pgq.schema_version()", (), value)


def engine() -> Call[tuple[bool, bool]]:
    """Return whether there is a schema pgq, and whether it is ours rather than the extension's."""
    sql = """
        select pg_catalog.to_regnamespace('pgq') is not null,
               pg_catalog.to_regproc('pgq.schema_version') is not null"""
    return Call("schema_version", sql, (), lambda rows: (rows[0][0], rows[0][1]))


def set_stall_policy(
    queue: str,
    consumer: str,
    policy: Policy,
    *,
    after: Interval | None = None,
    size: int | None = None,
) -> Call[int]:
    """Decide what happens when a consumer is so far behind that rotation waits for it.

    "warn": the ticker's log, doctor and metrics name it. "detach": rotation stops waiting, and
    calls for its events raise ConsumerDetached; its events in flight, retried and dead ones stay.

    Args:
        queue: the queue.
        consumer: the consumer.
        policy: "warn", as at the beginning, or "detach".
        after: seconds or a timedelta: the age of the first tick that it has not finished.
        size: bytes of the queue's event tables. What comes first counts.

    Returns 1 if that changed, else 0. Raises ConsumerNotFound, InvalidArgument.
    """
    sql = """
        select pgq.set_stall_policy(%s::text, %s::text, %s::text, %s::interval, %s::bigint)"""
    limits = (check.interval("after", after), check.maybe_bigint("size", size))
    name = check.name("policy", policy)
    return consumer_call("set_stall_policy", sql, queue, consumer, name, *limits)


def reattach_consumer(queue: str, consumer: str, *, from_earliest: bool = False) -> Call[int]:
    """Attach a detached consumer again: it goes on where it was. Returns 0 if it is attached.

    If events after its position are gone, it raises RangeExpired, which names the earliest tick;
    with `from_earliest` the consumer goes on from there.
    """
    sql = "select pgq.reattach_consumer(%s::text, %s::text, %s::boolean)"
    return consumer_call("reattach_consumer", sql, queue, consumer, bool(from_earliest))


def get_stalled_info(queue: str | None = None) -> Call[list[StalledInfo]]:
    """List the consumers that a rotation waits for, and those that are detached."""
    sql = """
        select queue_name, consumer_name, policy, stall_after, stall_bytes, detached, held_since,
               held_for, held_bytes, exceeded, is_live
          from pgq.get_stalled_info(%s::text)"""
    decode = records(StalledInfo)
    return Call("get_stalled_info", sql, (check.maybe_name("queue", queue),), decode)


def get_rotation_info(queue: str) -> Call[list[RotationTable]]:
    """List the event tables of a queue, and what keeps the next one from being truncated.

    Everybody may call it. Raises QueueNotFound.
    """
    sql = """
        select table_no, table_name, state, total_bytes, first_time, last_time, due, held_by, holder
          from pgq.get_rotation_info(%s::text)"""
    decode = records(RotationTable)
    return queue_call("get_rotation_info", sql, queue, decode=decode)
