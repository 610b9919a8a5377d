"""The base class of the loops of plain consumers: opens batches, waits, calls process_batch."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from pgqpy.calls import admin, consume
from pgqpy.consumers import own_task, waiting
from pgqpy.consumers._async.batch import AsyncOpenBatch
from pgqpy.consumers._async.event_handler import event_handler
from pgqpy.consumers._async.failures import AsyncFailures
from pgqpy.consumers.connections import EVENT_NOT_FOUND, LossCounter, is_collision
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.measures import measuring_batch, tracing_event
from pgqpy.consumers.missing_ticker import MissingTicker
from pgqpy.consumers.parts import UNREAD_BATCH, BatchLimits, list_size, most_failures
from pgqpy.consumers.retry import backoff, wanted_delay
from pgqpy.consumers.settings import BaseConsumer, handler_name, handler_of
from pgqpy.errors import BatchLost, PgqError
from pgqpy.records import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pgqpy.calls import Call
    from pgqpy.consumers._async.drain import AsyncDrain
    from pgqpy.consumers._async.lock import AsyncRunningLock
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.parts import Attempts
    from pgqpy.consumers.waiting import AsyncWakeup
    from pgqpy.records import Batch, Event


logger = logging.getLogger("pgqpy.consumers")


def no_progress() -> None:
    """Note nothing."""


@dataclass
class AsyncRunState:
    """What a run of a consumer keeps when a session is lost."""

    consumer: BaseConsumer
    stop: AsyncWakeup
    lock: AsyncRunningLock
    attempts: Attempts
    drain: AsyncDrain | None = None
    watch: HandlerWatch | None = None
    losses: LossCounter = field(default_factory=LossCounter)
    progress: Callable[[], None] = no_progress  # called after a batch or a wait


class AsyncLoop:
    """Processes batches in one session until `stop`."""

    def __init__(self, state: AsyncRunState, session: AsyncSession) -> None:
        self.state = state
        self.session = session
        self.consumer = consumer = state.consumer
        self.stop, self.attempts = state.stop, state.attempts
        self.counts = BaseConsumer.counts(consumer)
        self.by_event = handler_name(consumer) == "process_event"
        self.policy = consumer.retry_policy._replace(dead_events=not session.extension)
        self.open_settings: tuple[Call[Any], ...] = ()  # sent with a call that only opens a batch
        own = (consumer.min_count, consumer.min_interval)
        self.limits = BatchLimits(most=list_size(consumer.part_size), own=own)
        self.missing_ticker = MissingTicker()
        self.event: Event | None = None  # that process_event has, or had last
        self.current: AsyncOpenBatch  # the batch or part that make_batch made last
        self.position: int | None = None  # pos_no of the open batch
        self._batch: Batch | None = None  # that process_batch has
        self._expects_batch = True  # at the next poll
        self._counted = 0  # events of the open batch, in the parts that were finished
        self._waited = False  # since the last batch: it may have been registered anew meanwhile
        self._failed_batches = 0  # in a row
        if self.by_event:
            handler = event_handler(consumer, state.watch)
            self.process_event = handler if self.counts.tracing is None else _traced(handler, self)

    @property
    def in_progress(self) -> str | None:
        """The event or batch that a handler is working on, for the log."""
        if self.event is not None:
            return f"event {self.event.id}"
        return None if self._batch is None else f"batch {self._batch.id}"

    async def open_next(self, *before: Call[Any]) -> tuple[list[Any], Batch | None]:
        """Send calls, and open the next batch in the same round trip; return results and batch.

        An unfinished batch is delivered again. Without calls, `open_settings` are sent first. After
        a wait, the check of the registration follows. A poll without a notification sends neither:
        it seldom finds a batch, and is to cost little.
        """
        settings = self.open_settings if self._expects_batch else ()
        before = before or settings
        check = self.state.lock.check_calls() if self._waited and self._expects_batch else ()
        results = await self.send(*before, self._open_call(), *check)
        found = self._opened(results[len(before)])
        del results[len(before) :]
        while self.limits.adapt(found and found.batch):
            more = await self.send(*settings, self._open_call(), *check)
            found = self._opened(more[len(settings)])
        self._expects_batch = found is not None
        if found is None:
            self.session.ready = True  # a batch that was found makes it so once it was read
            return results, None
        self.position = found.position
        text = self.attempts.opened(found)
        if text is not None:
            batch = found.batch
            where = (batch.consumer, batch.queue, batch.id)
            logger.warning("consumer %s of queue %s: batch %d, %s", *where, text)
        unchecked, self._waited = self._waited and not check, False
        if unchecked:
            await self.state.lock.check(self.session)
        return results, found.batch

    async def send(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls in one round trip; return their results."""
        return await self.session.send(*wanted)

    def _open_call(self) -> Call[Attempt | None] | Call[Batch | None]:
        place, limits = (self.consumer.queue, self.consumer.name), self.limits.current
        if self.session.extension:
            return consume.next_batch(*place, None, *limits)
        return consume.open_batch(*place, *limits, self.attempts.held)

    def _opened(self, found: Attempt | Batch | None) -> Attempt | None:
        if found is None or isinstance(found, Attempt):
            return found
        return Attempt(found, None, None)

    def watching(self, what: str) -> AbstractContextManager[None]:
        """Return a block that handler_timeout ends, if there is one."""
        watch = self.state.watch
        return nullcontext() if watch is None else watch.handling(what)

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> AsyncOpenBatch:
        """Return the object that handlers get for a batch, or for a part of it."""
        limit = most_failures(self.consumer)
        failures = AsyncFailures(self.session, info, self.policy, limit)
        self.current = AsyncOpenBatch(self.session, info, failures, part)
        if self.counts.tracing is not None:
            self.current.trace = self.counts.tracing.opened(info)
        return self.current

    def bury_killer(self, batch: AsyncOpenBatch, part: list[Event]) -> bool:
        """Make the one event of a part dead if it killed too many processes; say whether."""
        error = self.attempts.killer_error(part)
        if error is None:
            return False
        batch.failures.dead(part[0], error)  # a second one is its retried copy, with the same id
        batch.size = len(part)
        return True

    async def wait(self) -> None:
        """Wait for the notification of a tick, at most for POLL_INTERVAL."""
        self.event, self._waited = None, True
        if self.state.drain is not None:
            await self.state.drain.idle(self.session, self.stop)
            self._expects_batch = True
            return
        self._expects_batch = await self.session.wait(waiting.POLL_INTERVAL, self.stop)
        if self.missing_ticker.check_due and not self.stop.is_set:
            await self._check_ticker()
        self.state.progress()

    async def _check_ticker(self) -> None:
        """Warn if no ticker seems to run."""
        consumer = self.consumer
        try:
            found = await self.session.runner.run(admin.get_queue_info(consumer.queue))
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

    async def handle_batch(self, batch: AsyncOpenBatch, *more: Any) -> bool:
        """Call process_batch; False if it stopped reading because of `stop`."""
        self._batch = batch.info
        try:
            what = f"the handler of batch {batch.info.id}"
            with self.watching(what), measuring_batch(self.counts, batch):
                check_result(await handler_of(self.consumer)(batch, *more))
            if batch.unread and not self.stop.is_set:
                raise RuntimeError(UNREAD_BATCH)  # it is the handler's error like any other
        except HANDLER_ERRORS as error:
            own_task.raise_if_cancelled(error)
            if batch.error is not None:
                raise batch.error from None
            raise HandlerFailed(error, collided=self.session.connection.collided(error)) from error
        finally:
            await batch.close()
        self._batch = None
        return not batch.unread

    async def is_batch_lost(self, batch: Batch, error: PgqError) -> bool:
        """Say whether `error` means that this consumer lost the batch; log it if so (G5)."""
        gone = isinstance(error, BatchLost)
        if not gone and self.session.extension and not self.session.lost:
            gone = await self.session.runner.run(consume.get_batch_info(batch)) is None
        if gone:
            text = (
                "batch %d of queue %s, consumer %s, is not ours any more: somebody took it over or "
                "moved the consumer, or a failover lost writes. Going on with the next batch"
            )
            logger.warning(text, batch.id, batch.queue, batch.consumer)
            await self.state.lock.check(self.session)
        return gone

    async def event_not_in_batch(self, batch: Batch | None, error: PgqError) -> None:
        """Treat a retry of an event that is not in the batch as a failure of process_batch."""
        is_event = error.sqlstate == EVENT_NOT_FOUND
        if batch is None or not is_event or self.by_event or self.wants_stop(error):
            raise error
        await self.back_off(batch, error)

    def wants_stop(self, error: BaseException) -> bool:
        """Say whether this error of a handler is to end run()."""
        given_up = self.by_event and self.policy.gives_up(error)
        return self.consumer.on_error == "stop" and wanted_delay(error) is None and not given_up

    def finished(self, batch: AsyncOpenBatch, *, whole: bool) -> None:
        """Count the batch, or a part of it, that was finished."""
        counts = self.counts
        self._counted += batch.size
        if whole:
            self.attempts.finished(batch.info)
            if self.consumer.filter is not None:
                self.limits.count(batch.info, self._counted)
            self._counted = 0
        else:
            self.attempts.part_finished()
        if batch.trace is not None:
            batch.trace.finished(batch.size)
        counts.batches += whole
        counts.events += batch.size
        counts.retries += batch.failures.retried
        counts.dead += batch.failures.given_up
        self._failed_batches, self.event, self.session.ready = 0, None, True
        self.missing_ticker.batch_came()
        self.state.progress()

    async def back_off(self, batch: Batch, error: BaseException) -> None:
        """Log that a whole batch failed, and wait before it is delivered again."""
        delay = wanted_delay(error)
        if delay is None:
            policy = self.policy
            delay = backoff(self._failed_batches, base=policy.base, maximum=policy.maximum)
        self._failed_batches += 1
        text = "batch %d of queue %s, consumer %s, failed and stays unfinished, again in %.1f s"
        logger.error(text, batch.id, batch.queue, batch.consumer, delay, exc_info=error)
        await self.stop.wait(delay)

    async def release(self) -> None:
        """Take the attempt of the open batch back: the run ends in order.

        Where that fails, the attempt counts: smaller parts follow, and no harm.
        """
        held, self.attempts.held = self.attempts.held, None
        if held is None or self.attempts.count is None or self.session.lost:
            return
        try:
            await self.send(consume.release_batch(held))
        except (psycopg.Error, PgqError) as error:
            logger.debug("batch %d was not released: %s", held, error)


def _traced(handler: Callable[..., Any], loop: AsyncLoop) -> Callable[..., Any]:
    async def traced(event: Event, *more: Any) -> None:
        with tracing_event(loop.current, event):
            check_result(await handler(event, *more))

    return traced
