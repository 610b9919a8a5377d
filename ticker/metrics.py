"""The daemon's metrics for Prometheus, and the readings of the gauges of queues."""

from __future__ import annotations

import time
from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily

from pgqpy import calls
from pgqpy.records.sharing import STATES
from pgqpy.schedule import should_fire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta

    from pgqpy import Client
    from pgqpy.records import CronEntry, InflightInfo, QueueMetrics
    from pgqpy.ticker.web import Health

    # The values of one metric of GAUGES, by its labels after the database.
    Reading = Mapping[str, Mapping[tuple[str, ...], float]]

TICKER_LAG = "pgq_ticker_lag_seconds"
NEW_EVENTS = "pgq_new_events"
QUEUE_EVENTS = "pgq_queue_events"
QUEUE_BYTES = "pgq_queue_bytes"
OLDEST_EVENT = "pgq_oldest_event_seconds"
NEWEST_EVENT = "pgq_newest_event_seconds"
ROTATION_AGE = "pgq_rotation_age_seconds"
ROTATION_OVERDUE = "pgq_rotation_overdue_seconds"
QUEUE_PAUSED = "pgq_queue_paused"
CONSUMER_LAG = "pgq_consumer_lag_seconds"
CONSUMER_LAST_SEEN = "pgq_consumer_last_seen_seconds"
PENDING_EVENTS = "pgq_pending_events"
RETRY_EVENTS = "pgq_retry_events"
DEAD_EVENTS = "pgq_dead_events"
DELAYED_EVENTS = "pgq_delayed_events"
DELAYED_OVERDUE = "pgq_delayed_overdue_seconds"
NOTIFY_QUEUE = "pgq_notify_queue_usage_ratio"
OLDEST_TRANSACTION = "pgq_oldest_transaction_seconds"
OLDEST_BATCH = "pgq_oldest_batch_seconds"
BATCH_ATTEMPTS = "pgq_batch_attempts"
INFLIGHT = "pgq_inflight"
INFLIGHT_OLDEST = "pgq_inflight_oldest_seconds"
INFLIGHT_CLAIM = "pgq_inflight_oldest_claim_seconds"
INFLIGHT_FRONT = "pgq_inflight_front_lag_seconds"
INFLIGHT_CRASHES = "pgq_inflight_crashes"
PROCESSES = "pgq_consumer_processes"
CRON_LATE = "pgq_cron_late_seconds"
CAPTURED = "pgq_captured_tables"
CAPTURE_PROBLEMS = "pgq_capture_problems"
HELD_BYTES = "pgq_consumer_held_bytes"
HELD_FOR = "pgq_consumer_held_seconds"
DETACHED = "pgq_consumer_detached"

# Metrics that the duty `gauges` reads: text, and labels after the database.
GAUGES = {
    TICKER_LAG: ("Age of the queue's last tick.", "queue"),
    NEW_EVENTS: ("Events since the last tick.", "queue"),
    QUEUE_EVENTS: (
        "Events in the tables: consumers may be moved back to them. An estimate.",
        "queue",
    ),
    QUEUE_BYTES: ("The queue's tables on disk, with indexes.", "queue"),
    OLDEST_EVENT: ("Age of the oldest event in the tables.", "queue"),
    NEWEST_EVENT: ("Age of the newest event.", "queue"),
    ROTATION_AGE: ("Time since the last switch to the next event table.", "queue"),
    ROTATION_OVERDUE: ("For how long a rotation has been due.", "queue"),
    QUEUE_PAUSED: ("1: paused, the ticker does not tick it.", "queue"),
    DELAYED_EVENTS: ("Delayed events that wait, counted up to 10,000.", "queue"),
    DELAYED_OVERDUE: ("For how long the first delayed event has been due.", "queue"),
    NOTIFY_QUEUE: ("Used part of the server's NOTIFY queue, 0 to 1.",),
    OLDEST_TRANSACTION: ("Age of the oldest transaction that holds xmin back.",),
    CAPTURED: ("Tables whose changes are events of the queue.", "queue"),
    CAPTURE_PROBLEMS: ("What is wrong with their capture.", "queue"),
    CONSUMER_LAG: ("Age of the last finished tick.", "queue", "consumer"),
    CONSUMER_LAST_SEEN: ("Time since it asked for, or finished, a batch.", "queue", "consumer"),
    PENDING_EVENTS: ("Events after the position.", "queue", "consumer"),
    RETRY_EVENTS: ("Events in the retry queue, counted up to 10,000.", "queue", "consumer"),
    DEAD_EVENTS: ("Dead events, counted up to 10,000.", "queue", "consumer"),
    HELD_BYTES: ("Size of the queue's tables, while rotation waits for it.", "queue", "consumer"),
    HELD_FOR: ("How far behind, while rotation waits for it.", "queue", "consumer"),
    DETACHED: ("1: detached, rotation does not wait for it.", "queue", "consumer"),
    CRON_LATE: ("For how long it has been due without being fired.", "queue", "name"),
    OLDEST_BATCH: ("Time without progress of the open batch; 0: none.", "queue", "consumer"),
    BATCH_ATTEMPTS: ("Processes that began the open batch; 0: none.", "queue", "consumer"),
    # Of shared consumers:
    INFLIGHT: ("Events in flight, by state.", "queue", "consumer", "state"),
    INFLIGHT_OLDEST: ("Age of the first event that could be claimed.", "queue", "consumer"),
    INFLIGHT_CLAIM: ("Time since the oldest claim was made.", "queue", "consumer"),
    INFLIGHT_FRONT: ("Time without a poll for new events.", "queue", "consumer"),
    INFLIGHT_CRASHES: ("Crashes with one of the events in flight alone.", "queue", "consumer"),
    PROCESSES: ("Processes that claim events.", "queue", "consumer"),
}
OF_QUEUES: Mapping[str, Callable[[QueueMetrics], float | None]] = {
    QUEUE_EVENTS: lambda queue: queue.estimated_events,
    QUEUE_BYTES: lambda queue: queue.total_bytes,
    OLDEST_EVENT: lambda queue: _age(queue.oldest_event_age),
    NEWEST_EVENT: lambda queue: _age(queue.newest_event_age),
}
OF_SHARED: Mapping[str, Callable[[InflightInfo], float]] = {
    INFLIGHT_OLDEST: lambda found: seconds(found.oldest),
    INFLIGHT_CLAIM: lambda found: seconds(found.oldest_claim),
    INFLIGHT_FRONT: lambda found: seconds(found.lag),
    INFLIGHT_CRASHES: lambda found: found.crashes,
}
# The attempts are null where nobody counts them.
BATCHES = """
    select q.queue_name, c.co_name, extract(epoch from clock_timestamp() - p.pos_moved)::float8,
        coalesce(p.pos_attempts, 0)
    from pgq.current_position p
        join pgq.queue q on q.queue_id = p.sub_queue
        join pgq.consumer c on c.co_id = p.sub_consumer
    where p.pos_batch is not null and p.sub_parent is null
"""
# Queues with an external ticker are not rotated here.
ROTATIONS = """
    select queue_name, queue_ticker_paused, queue_external_ticker,
        extract(epoch from since)::float8 as age,
        extract(epoch from since - queue_rotates_after)::float8 as overdue
    from pgq.queue cross join lateral (select clock_timestamp() - queue_switch_time as since) s
"""
# Null for a role that may not see other roles' transactions.
OLDEST = """
    select pg_notification_queue_usage(), case when pg_has_role('pg_read_all_stats', 'usage')
        then coalesce(extract(epoch from clock_timestamp() - min(begun)), 0)::float8 end
    from (
        select xact_start as begun from pg_stat_activity
        where xact_start is not null and pid <> pg_backend_pid()
            and backend_type <> 'autovacuum worker'
            and (backend_xid is not null
                or backend_xmin is not null and datname = current_database())
        union all
        select prepared from pg_prepared_xacts) transactions
"""
SIZES_PAUSE = 100  # times what a reading of sizes took: at most 1 % of a core of the server


class SizesReader:
    """Reads what queues keep, less often where that takes long.

    The server asks the file system for the size of each event table: with 1,000 queues that takes
    half a second. Between two readings the last values stay.
    """

    def __init__(self) -> None:
        """Read at the first call."""
        self._last: list[QueueMetrics] = []
        self._next = float("-inf")  # by time.monotonic()

    def __call__(self, client: Client) -> list[QueueMetrics]:
        """Return a new reading, or the last one."""
        began = time.monotonic()
        if began >= self._next:
            self._last = client.call(calls.admin.get_queue_metrics())
            ended = time.monotonic()
            self._next = ended + SIZES_PAUSE * (ended - began)
        return self._last


def read_gauges(client: Client, sizes: SizesReader | None = None) -> Reading:
    """Read the state of every queue and every subscription.

    The cost does not depend on the number of events: counts stop at 10,000. No age is negative: the
    clock may have been ahead when a time was stored.
    """
    reading = _read(client, sizes or SizesReader())
    return {
        metric: {labels: max(value, 0) for labels, value in values.items()}
        for metric, values in reading.items()
    }


def _read(client: Client, sizes: SizesReader) -> Reading:
    queues = client.get_queue_info()
    names = {info.queue_name for info in queues}
    kept = [row for row in sizes(client) if row.queue_name in names]
    rotations = client.connection.execute(ROTATIONS).fetchall()
    delayed = client.call(calls.produce.get_delayed_counts())
    counts = {row[:2]: row for row in client.call(calls.admin.get_consumer_counts())}
    # Without counts it is a subconsumer, or was registered in between.
    consumers = {info[:2]: info for info in client.get_consumer_info() if info[:2] in counts}
    stalled = client.call(calls.admin.get_stalled_info())
    ((usage, oldest),) = client.connection.execute(OLDEST).fetchall()
    batches = {row[:2]: row[2:] for row in client.connection.execute(BATCHES).fetchall()}
    inflight = [row for row in client.call(calls.sharing.get_inflight()) if row[:2] in counts]
    captures = client.call(calls.capture.get_captures())
    captured = Tally(row.queue_name for row in captures)
    problems = Tally(row.queue_name for row in captures for _ in row.problems)
    holders = Tally(row[:2] for row in client.call(calls.sharing.get_holders()) if row.name)
    return {
        TICKER_LAG: {(info.queue_name,): seconds(info.ticker_lag) for info in queues},
        NEW_EVENTS: {(info.queue_name,): info.ev_new or 0 for info in queues},
        # None: the queue has no event, or a table is locked.
        **{
            name: {(row.queue_name,): value for row in kept if (value := read(row)) is not None}
            for name, read in OF_QUEUES.items()
        },
        DELAYED_EVENTS: {(row.queue_name,): row.delayed_events for row in delayed},
        DELAYED_OVERDUE: {(row.queue_name,): seconds(row.overdue) for row in delayed},
        QUEUE_PAUSED: {row[:1]: row[1] for row in rotations},
        ROTATION_AGE: {row[:1]: row[3] for row in rotations if not row[2]},
        ROTATION_OVERDUE: {row[:1]: row[4] for row in rotations if not row[2]},
        NOTIFY_QUEUE: {(): usage},
        OLDEST_TRANSACTION: {} if oldest is None else {(): oldest},
        CAPTURED: {(name,): captured[name] for name in captured},
        CAPTURE_PROBLEMS: {(name,): problems[name] for name in captured},
        CONSUMER_LAG: {names: seconds(info.lag) for names, info in consumers.items()},
        CONSUMER_LAST_SEEN: {names: seconds(info.last_seen) for names, info in consumers.items()},
        PENDING_EVENTS: {names: info.pending_events or 0 for names, info in consumers.items()},
        RETRY_EVENTS: {names: counts[names].retry_events for names in consumers},
        DEAD_EVENTS: {names: counts[names].dead_events for names in consumers},
        HELD_BYTES: {each[:2]: each.held_bytes for each in stalled if each.held_bytes is not None},
        HELD_FOR: {each[:2]: seconds(each.held_for) for each in stalled if each.held_for},
        DETACHED: {each[:2]: 1 for each in stalled if each.detached},
        CRON_LATE: {(entry.queue, entry.name): late(entry) for entry in client.get_cron_info()},
        OLDEST_BATCH: {names: batches.get(names, (0, 0))[0] for names in consumers},
        BATCH_ATTEMPTS: {names: batches.get(names, (0, 0))[1] for names in consumers},
        INFLIGHT: {(*row[:2], state): getattr(row, state) for row in inflight for state in STATES},
        **{name: {row[:2]: read(row) for row in inflight} for name, read in OF_SHARED.items()},
        PROCESSES: {row[:2]: holders[row[:2]] for row in inflight},
    }


def _age(interval: timedelta | None) -> float | None:
    return None if interval is None else interval.total_seconds()


def seconds(interval: timedelta | None) -> float:
    """Return an interval in seconds; 0 for None, a queue or consumer without a tick."""
    return interval.total_seconds() if interval is not None else 0.0


def late(entry: CronEntry) -> float:
    """Return how many seconds a cron entry is late."""
    if entry.paused_since:
        return 0.0
    due = should_fire(entry.schedule, entry.timezone, entry.next_due, entry.planned_at)
    return max(0.0, seconds(entry.read_at - due))


class TickerMetrics:
    """The metrics of one daemon, in a registry of their own."""

    def __init__(self) -> None:
        """Register every metric with value zero."""
        registry = self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, ("database", *labels), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ("database",), registry=registry)

        self.ticks = counter("pgq_ticks", "Ticks written.", "queue")
        self.errors = counter("pgq_errors", "Failures, by the duty that failed.", "duty")
        text = "Events moved from the retry queue back into their queue."
        self.retried_events = counter("pgq_retried_events", text)
        self.cron_events = counter("pgq_cron_events", "Events inserted by cron entries.")
        self.rotations = counter("pgq_rotations", "Switches to the next event table.", "queue")
        text = "Connections lost and attempts to connect that failed."
        self.reconnects = counter("pgq_reconnects", text)
        text = "1 if this daemon ticks the database, 0 if it stands by or cannot."
        self._active = gauge("pgq_ticker_active", text)
        text = "Seconds since the last poll that ticked every queue that had changed."
        self._last_poll_age = gauge("pgq_ticker_last_poll_age_seconds", text)
        text = "Queues that this daemon cannot tick; its log says why."
        self._failing_queues = gauge("pgq_ticker_failing_queues", text)
        self.readings: dict[str, Reading] = {}  # the last one of each database that is active here
        registry.register(self)

    def watch(self, health: Health) -> None:
        """Show a database's metrics from now on; its health is read at every scrape."""
        database = health.database
        self.retried_events.labels(database)
        self.reconnects.labels(database)
        self.cron_events.labels(database)
        self._active.labels(database).set_function(lambda: health.role == "active")
        self._failing_queues.labels(database).set_function(lambda: len(health.failing))
        self._last_poll_age.labels(database).set_function(
            lambda: health.complete_poll_age(time.monotonic())
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the last readings; prometheus-client calls this at every scrape.

        So a dropped queue or consumer leaves no stale line, and no scrape meets half of a reading.
        """
        readings = list(self.readings.items())
        for name, (text, *labels) in GAUGES.items():
            family = GaugeMetricFamily(name, text, labels=["database", *labels])
            for database, reading in readings:
                for values, value in reading[name].items():
                    family.add_metric([database, *values], value)
            yield family
