"""[Generated from _async/loop.py by tools/unasync.py: edit that file, not this one.] The base class of all consumer loops: it opens batches, waits, calls process_batch."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.calls import admin, consume, filters
from pgqpy.consumers import crash, own_task, waiting
from pgqpy.consumers._sync.batch import OpenBatch
from pgqpy.consumers._sync.failures import Failures
from pgqpy.consumers._sync.lane_lock import LaneLock
from pgqpy.consumers._sync.parking import Parking
from pgqpy.consumers._sync.worker_lock import WorkerLock, limits_of
from pgqpy.consumers.connections import EVENT_NOT_FOUND, is_collision
from pgqpy.consumers.handler_watch import watched_key, watching
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.heartbeat import HeldBatch
from pgqpy.consumers.measures import measuring_batch, tracing_event
from pgqpy.consumers.missing_ticker import MissingTicker
from pgqpy.consumers.parts import UNREAD, BatchLimits, list_size, most_failures
from pgqpy.consumers.retry import backoff, wanted_delay
from pgqpy.consumers.settings import filter_of, handler_name
from pgqpy.errors import BatchLost, PgqError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.careful import Careful
    from pgqpy.consumers._sync.lock import RunningLock
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.connections import LossCounter
    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.measures import ConsumerTotals, HandlerTimes
    from pgqpy.consumers.parts import Pace
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import Wakeup
    from pgqpy.records import Batch, Event


logger = logging.getLogger("pgqpy.consumers")


@dataclass
class Loop:
    """Processes batches in one session until `stop`; calls `progress` after a batch or a wait."""

    consumer: BaseConsumer
    session: Session
    stop: Wakeup
    progress: Callable[[], None]
    losses: LossCounter
    counts: ConsumerTotals
    lock: RunningLock
    careful: Careful
    watch: HandlerWatch | None
    pace: Pace

    def __post_init__(self) -> None:
        consumer, session = self.consumer, self.session
        self.by_event = handler_name(consumer) == "process_event"
        self.policy = consumer.retry_policy._replace(dead_events=not session.extension)
        self.open_settings: tuple[Call[Any], ...] = ()  # sent with a call that only opens a batch
        own = (consumer.min_count, consumer.min_interval)
        self.limits = BatchLimits(most=list_size(consumer), own=own)
        self.filtered = consumer.filter is not None
        self.asked = filters.filter_json(*filter_of(consumer))
        self.key = watched_key(consumer, self.watch)
        self.parking = Parking(consumer, session, self.key, self.lock)
        self.missing_ticker = MissingTicker()
        self.event: Event | None = None  # that process_event has, or had last
        self._batch: Batch | None = None  # that process_batch has
        self.current: OpenBatch  # the batch or part that make_batch made last
        self.held = session.calls.held = HeldBatch(consumer)  # for heartbeats, and checks
        self._expects_batch = True  # at the next poll
        self._counted = 0  # events of the open batch, in the parts that were finished
        self._waited = False  # since the last batch: it may have been registered anew meanwhile
        self._failed_batches = 0  # in a row
        if self.by_event:
            self.process_event = self.parking.with_key(event_handler(self))

    @property
    def in_progress(self) -> str | None:
        """The event or batch that a handler is working on, for the log."""
        if self.event is not None:
            return f"event {self.event.id}"
        return None if self._batch is None else f"batch {self._batch.id}"

    def open_next(
        self, *before: Call[Any], after: Call[Any] | None = None
    ) -> tuple[list[Any], Batch | None]:
        """Send calls, and open the next batch in the same round trip; return results and batch.

        An unfinished batch is delivered again. Without calls, `open_settings` are sent first. After
        a wait, the check of the registration follows. A poll without a notification sends neither:
        it seldom finds a batch, and is to cost little. The call `after` is sent last. Parked events
        that are due come in turns with ordinary batches.
        """
        began = waiting.boottime()  # a stop of the process in the round trip is silence too
        settings, parking = self.open_settings if self._expects_batch else (), self.parking
        before, turn = before or settings, parking.is_turn
        check = self.lock.check_calls() if self._waited and self._expects_batch else ()
        sent = (*before, self._take_parked() if turn else self._next_call(), *parking.poll())
        results = self.send(*sent, *check, *(() if after is None else (after,)))
        found = results[len(before)]
        del results[len(before) : len(sent) + len(check)]
        if found is None and turn:
            found = (self.send(*settings, self._next_call(), *check))[len(settings)]
        while not (found and found.parked) and self.limits.adapt(found):
            found = (self.send(*settings, self._next_call(), *check))[len(settings)]
        if found is None and parking.is_due:
            found = (self.send(*settings, self._take_parked(), *check))[len(settings)]
        parking.opened(found)
        self._expects_batch = found is not None
        self.session.ready |= found is None  # else when it was read
        # Before the events are read: heartbeats cover the reading.
        self.held.take(None if found is None else found.id, began)
        if found is not None:
            unchecked, self._waited = self._waited and not check, False
            if unchecked:
                self.lock.check(self.session)
        return results, found

    def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls in one round trip; return their results."""
        with self.session.calls.running():
            return self.session.runner.run_all(*wanted)

    def _next_call(self) -> Call[Batch | None]:
        consumer = self.consumer
        if isinstance(self.lock, WorkerLock):
            mine = (self.pace.wanted, self.asked, *self.limits.current)
            return self.lock.take_part(self.careful, limits_of(consumer, *mine))
        return consume.next_batch(consumer.queue, consumer.name, None, *self.limits.current)

    def _take_parked(self) -> Call[Batch | None]:
        if isinstance(self.lock, LaneLock):
            mine = (self.careful, self.consumer.lease)
            return self.lock.take_parked(*mine, self.parking.most)
        return self.parking.take()

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> OpenBatch:
        """Return the object that handlers get for a batch, or for a part of it."""
        size, limit = list_size(self.consumer), most_failures(self.consumer)
        failures = Failures(self.session, info, self.policy, limit, self.parking)
        self.pace.begin()
        self.current = OpenBatch(self.session, info, failures, size, part)
        if self.counts.tracing is not None:
            self.current.trace = self.counts.tracing.opened(info)
        return self.current

    def give_up(self, batch: OpenBatch, part: list[Event]) -> bool:
        """Make the one event of a part dead if it killed the process too often; say whether."""
        error = self.careful.killer_error(part)
        if error is None:
            return False
        batch.failures.dead(part[0], error)  # a second one is its retried copy, with the same id
        batch.size = len(part)
        return True

    def ends_confirmed(self, info: Batch, part: list[Event]) -> bool:
        """Ask again before an event is given up; False if `stop` came meanwhile.

        A worker that lost its session counts as dead at once. When it is back, it takes that back.
        """
        until, told = time.monotonic() + crash.GRACE, False
        while self.careful.killer_error(part) is not None and self.careful.may_live:
            left = until - time.monotonic()
            if left <= 0:
                break
            if not told:
                text = (
                    "batch %d of queue %s, consumer %s: waits up to %.0f s before event %d is "
                    "given up: a worker that counts as dead may have lost its connection only"
                )
                logger.info(text, info.id, info.queue, info.consumer, left, part[0].id)
                told = True
            self.stop.wait(min(left, crash.POLL_INTERVAL))
            if self.stop.is_set:
                return False
            _, found = self.open_next()
            if found is None or found.id != info.id:
                raise BatchLost(batch_id=info.id)
        return True

    def check_session(self) -> None:
        """Send an empty query if the session may have ended. Raises psycopg's error if it has."""
        if self.held.must_check:
            self.held.must_check = False  # before the query: the thread may set it again meanwhile
            self.session.ping()

    def wait(self) -> None:
        """Wait for the notification of a tick, at most for POLL_INTERVAL."""
        self.event, self._waited = None, True
        longest = min(waiting.POLL_INTERVAL, self.parking.seconds)
        self._expects_batch = self.session.wait(longest, self.stop)
        if self.missing_ticker.check_due and not self.stop.is_set:
            self._check_ticker()
        self.progress()

    def _check_ticker(self) -> None:
        """Warn if no ticker seems to run."""
        consumer = self.consumer
        try:
            found = self.session.runner.run(admin.get_queue_info(consumer.queue))
        except psycopg.Error as error:
            if is_collision(error):
                return  # with a compaction: the next check will do
            raise
        reason = self.missing_ticker.warning(found)
        if reason:
            text = (
                "no ticker seems to run, so consumer %s of queue %s gets nothing (%s): "
                "start one with `pgqpy ticker run`"
            )
            logger.warning(text, consumer.name, consumer.queue, reason)

    def handle_batch(self, batch: OpenBatch, *more: Any) -> bool:
        """Call process_batch; False if it stopped reading because of `stop`."""
        self._batch = batch.info
        try:
            what = f"the handler of batch {batch.info.id}"
            with watching(self.watch, what), self.pace, measuring_batch(self.counts, batch):
                check_result(self.consumer.process_batch(batch, *more))
            if batch.unread and not self.stop.is_set:
                raise RuntimeError(UNREAD)  # it is the handler's error like any other
        except HANDLER_ERRORS as error:
            own_task.raise_if_cancelled(error)
            if batch.error is not None:
                raise batch.error from None
            raise HandlerFailed(error, collided=self.session.connection.collided(error)) from error
        finally:
            batch.close()
        self._batch = None
        return not batch.unread

    def is_batch_lost(self, batch: Batch, error: PgqError) -> bool:
        """Say whether `error` means that this consumer lost the batch; log it if so (G5)."""
        gone = isinstance(error, BatchLost)
        if not gone and self.session.extension and not self.session.lost:
            gone = self.session.runner.run(consume.get_batch_info(batch)) is None
        if gone:
            text = (
                "batch %d of queue %s, consumer %s, is not ours any more: somebody took it over or "
                "moved the consumer, or a failover lost writes. Going on with the next batch"
            )
            logger.warning(text, batch.id, batch.queue, batch.consumer)
            self.lock.check(self.session)
        return gone

    def event_not_in_batch(self, batch: Batch | None, error: PgqError) -> None:
        """Treat a retry of an event that is not in the batch as a failure of process_batch."""
        is_event = error.sqlstate == EVENT_NOT_FOUND
        if batch is None or not is_event or self.by_event or self.wants_stop(error):
            raise error
        self.back_off(batch, error)

    def wants_stop(self, error: BaseException) -> bool:
        """Say whether this error of a handler is to end run()."""
        given_up = self.by_event and self.policy.gives_up(error)
        return self.consumer.on_error == "stop" and wanted_delay(error) is None and not given_up

    def batch_finished(self, *, whole: bool = True) -> None:
        """Count the batch that was opened last: it, or a part of it, was finished."""
        if self.careful.active:
            self.careful.part_finished(self.session, whole=whole)
        counts, batch = self.counts, self.current
        self._counted += batch.size
        if whole:
            if self.filtered and not batch.info.parked:
                self.limits.count(batch.info, self._counted)
            self._counted = 0
        self.pace.end(batch.size)
        if batch.trace is not None:
            batch.trace.finished(batch.size)
        counts.batches += whole
        counts.events += batch.size - batch.failures.waiting_behind
        counts.retries += batch.failures.retried
        counts.dead += batch.failures.given_up
        self._failed_batches, self.event, self.session.ready = 0, None, True
        self.missing_ticker.batch_came()
        self.progress()

    def back_off(self, batch: Batch, error: BaseException) -> None:
        """Log that a whole batch failed, and wait before it is delivered again."""
        delay = wanted_delay(error)
        if delay is None:
            policy = self.policy
            delay = backoff(self._failed_batches, base=policy.base, maximum=policy.maximum)
        self._failed_batches += 1
        text = "batch %d of queue %s, consumer %s, failed and stays unfinished, again in %.1f s"
        logger.error(text, batch.id, batch.queue, batch.consumer, delay, exc_info=error)
        self.stop.wait(delay)


def event_handler(loop: Loop) -> Callable[..., Any]:
    """Return process_event itself, or a function around it."""
    consumer, counts = loop.consumer, loop.counts
    handler = consumer.process_event if loop.watch is None else _watched(consumer, loop.watch)
    handler = handler if counts.times is None else _timed(handler, counts.times)
    return handler if counts.tracing is None else _traced(handler, loop)


def _watched(consumer: BaseConsumer, watch: HandlerWatch) -> Callable[..., Any]:
    def watched(event: Event, *more: Any) -> Any:
        with watch.handling(f"the handler of event {event.id}"):
            return consumer.process_event(event, *more)

    return watched


def _timed(handler: Callable[..., Any], times: HandlerTimes) -> Callable[..., Any]:
    def timed(event: Event, *more: Any) -> Any:
        began = time.perf_counter()
        try:
            result = handler(event, *more)
        finally:
            times.calls.observe(time.perf_counter() - began)
        times.event_done(event)
        return result

    return timed


def _traced(handler: Callable[..., Any], loop: Loop) -> Callable[..., Any]:
    def traced(event: Event, *more: Any) -> None:
        with tracing_event(loop.current, event):  # no handler runs beside the next batch
            check_result(handler(event, *more))

    return traced
