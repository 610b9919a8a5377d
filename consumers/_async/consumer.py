"""The classes that applications subclass, and what they have in common: start, reconnect, stop."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.errors import LockNotAvailable
from tenacity import AsyncRetrying, retry_if_exception, wait_random_exponential

from pgqpy.consumers import own_task, signals
from pgqpy.consumers._async.careful import AsyncCareful
from pgqpy.consumers._async.lane_lock import lock_for
from pgqpy.consumers._async.session import AsyncSession
from pgqpy.consumers._async.transactional import kind_of_loop
from pgqpy.consumers.connections import LossCounter, is_loss, is_session_lost
from pgqpy.consumers.crash import new_holder
from pgqpy.consumers.handler_watch import watch_handlers
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, StopRequested
from pgqpy.consumers.heartbeat import heartbeats
from pgqpy.consumers.log import finishing, log_ended, log_lost
from pgqpy.consumers.measures import Outage
from pgqpy.consumers.parts import Pace
from pgqpy.consumers.settings import SETTINGS, BaseConsumer, check, fix, unfix
from pgqpy.consumers.signals import stop_on_signals
from pgqpy.consumers.waiting import AsyncWakeup
from pgqpy.settings import default_dsn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg import AsyncConnection
    from tenacity import RetryCallState
    from typing_extensions import Unpack

    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.consumers._async.loop import AsyncLoop
    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.settings import ConsumerSettings
    from pgqpy.records import Event

logger = logging.getLogger("pgqpy.consumers")

RECONNECT_BASE, RECONNECT_MAX = 0.1, 10.0  # seconds
LOCK_TIMEOUT = "5s"  # a statement that waits hears no stop(), and nobody would learn why it waits


class AsyncRunnableConsumer(BaseConsumer):
    """What both kinds of consumers have: start, reconnect and stop."""

    def __init__(self, dsn: str | None = None, **settings: Unpack[ConsumerSettings]) -> None:
        super().__init__(dsn, **settings)
        self._pgq_stop: AsyncWakeup = AsyncWakeup()
        self._pgq_lock = lock_for(self)
        self._pgq_session: AsyncSession | None = None
        self._pgq_loop: AsyncLoop | None = None
        self._pgq_careful: AsyncCareful  # of a run
        self._pgq_watch: HandlerWatch | None = None
        self._pgq_losses, self._pgq_pace = LossCounter(), Pace(self)
        self._pgq_worked = False  # a session of this run got as far as taking batches
        self._pgq_lost = False  # a session of this run was lost
        self._pgq_forked = False

    async def run(self) -> None:
        """Register the consumer and process events until `stop()`, SIGTERM, SIGINT or SIGHUP.

        A second signal does not wait for the handler. After a lost connection it reconnects, as
        often as needed, and the unfinished batch is delivered again.

        Raises ConsumerRunning if another process runs this consumer, QueueNotFound, SchemaMissing
        and ConnectionFailed when it cannot start, and with `on_error = "stop"` the exception of the
        handler. SystemExit and KeyboardInterrupt of a handler end it too; the batch stays open.
        """
        check(self)  # an attribute may have been set since it was made
        fix(self, SETTINGS)
        try:
            self._pgq_begin()
            with stop_on_signals(self._pgq_stop_on_signal), watch_handlers(self) as self._pgq_watch:
                work = self._pgq_reconnect_and_serve
                ends = partial(self._pgq_careful.to_orderly_end, work)
                await own_task.run_in_own_task_async(ends, partial(BaseConsumer.stop, self))
        except StopRequested:
            pass
        except HandlerFailed as failure:
            self._pgq_handler_error = failure.error
        finally:
            self._pgq_end()
        if self._pgq_handler_error is not None:
            raise self._pgq_handler_error

    def _pgq_begin(self) -> None:
        self._pgq_worked = self._pgq_lost = self._pgq_forked = False
        self._pgq_handler_error, self._pgq_careful = None, AsyncCareful(self, new_holder())
        signals.protect(self)
        self._pgq_lock = lock_for(self, self._pgq_lock)
        self._pgq_lock.run = (self._pgq_careful.holder, self.key)
        self._pgq_stop.open()

    def _pgq_end(self) -> None:
        signals.unprotect(self)
        self._pgq_outage = Outage()
        self._pgq_stop.close()
        unfix(self)
        if self._pgq_forked:
            raise RuntimeError(signals.FORKED)

    async def _pgq_reconnect_and_serve(self) -> None:
        attempts = AsyncRetrying(
            retry=retry_if_exception(self._pgq_may_reconnect),
            wait=wait_random_exponential(multiplier=RECONNECT_BASE, max=RECONNECT_MAX),
            sleep=self._pgq_stop.wait,
            before_sleep=self._pgq_log_lost,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                await self._pgq_serve(attempt.retry_state)

    async def _pgq_serve(self, state: RetryCallState) -> None:
        """Run one session: connect, take the lock, process until stopped or lost."""

        def progress() -> None:
            state.attempt_number = 1  # the next loss is a new one: no long delay for it

        if self._pgq_stop.is_set:
            return
        dsn = default_dsn() if self.dsn is None else self.dsn
        name, leased = f"pgqpy consumer {self.name}", self.lease is not None
        session = await AsyncSession.open(dsn, name, LOCK_TIMEOUT, any_session=leased)
        self._pgq_session = session
        try:
            await self._pgq_prepare(session)
            await self._pgq_careful.begin(session, self._pgq_stop, self._pgq_lock.consumer)
            with heartbeats(self, dsn, lambda: self._pgq_loop):
                await self._pgq_run_loop(session, progress)
            await self._pgq_careful.end(session)
            logger.info("consumer %s of queue %s stops", self._pgq_lock.consumer, self.queue)
        except MemoryError:
            raise  # an event may have taken the memory: the next run is to know
        except HANDLER_ERRORS as error:
            if not self._pgq_may_reconnect(error):
                await self._pgq_careful.end(session)
            raise
        except BaseException as error:
            self._pgq_log_ended(error)
            raise
        finally:
            if session.ready:
                self._pgq_outage = None
            self._pgq_session = self._pgq_loop = None
            session.close()

    async def _pgq_run_loop(self, session: AsyncSession, progress: Callable[[], None]) -> None:
        kind = kind_of_loop(self, session)
        start = partial(kind, self, session, self._pgq_stop, progress, self._pgq_losses)
        start = partial(start, self._pgq_counts, self._pgq_lock)
        self._pgq_loop = loop = start(self._pgq_careful, self._pgq_watch, self._pgq_pace)
        await loop.run()

    async def _pgq_prepare(self, session: AsyncSession) -> None:
        if not self._pgq_worked:
            # Only at the start: one that was unregistered during an outage would lose events.
            await session.register(self.queue, self.name)
        await session.require_functions(self)
        if self.has_workers:
            await session.prepare_worker(self, begins=not self._pgq_worked)
        await self._pgq_lock.take(session, self._pgq_stop)
        await session.set_filter(self, begins=not self._pgq_worked)
        await session.listen(self.queue)
        if self.is_transactional:
            await session.restore_settings()
        again = " again: its unfinished batch is delivered again" if self._pgq_worked else ""
        logger.info("consumer %s of queue %s runs%s", self._pgq_lock.consumer, self.queue, again)
        self._pgq_worked = True

    def _pgq_may_reconnect(self, error: BaseException) -> bool:
        # A first connection that fails is a mistake to report, not an outage to wait for.
        passes = is_session_lost(error) or isinstance(error, LockNotAvailable)
        wait = self._pgq_worked or self._pgq_lost or passes
        return wait and not self._pgq_forked and is_loss(error)

    def _pgq_log_lost(self, state: RetryCallState) -> None:
        self._pgq_lost = True
        self._pgq_outage = Outage(log_lost(self, state), (self._pgq_outage or Outage()).since)

    def _pgq_stop_on_signal(self) -> Callable[[], None] | None:
        self.stop()
        in_progress = self._pgq_loop and self._pgq_loop.in_progress
        return finishing(self, in_progress) if in_progress else None

    def _pgq_log_ended(self, error: BaseException) -> None:
        in_progress = self._pgq_loop and self._pgq_loop.in_progress
        if in_progress and not self._pgq_forked:
            log_ended(self, in_progress, error)

    def after_fork(self) -> int | None:
        """Note that this is a forked child; return the socket that it must not use."""
        self._pgq_forked = True
        self._pgq_careful.forked()
        self._pgq_stop.abandon()
        session = self._pgq_session
        return None if session is None or session.lost else session.connection.fileno()


class AsyncConsumer(AsyncRunnableConsumer):
    """Processes the events of a queue, from the position of one registered consumer on.

    Subclass it, set `queue` and `name`, and write `process_event(self, event)`, or
    `process_batch(self, batch)` for a batch at a time, or a part of it with `part_size` events. An
    exception of `process_event` puts the event into the retry queue with growing delays, and after
    `max_retries` makes it a dead event; after one of `process_batch` all its events are delivered
    again. `Retry(after=…)` asks for a delay. With `on_error = "stop"` the first exception ends
    `run()` and leaves the batch unfinished; with "park" an event and the later ones of its `key`
    wait, and keep their order.

    Events are delivered at least once; with AsyncTransactionalConsumer each effect happens once.

        class Billing(AsyncConsumer):
            queue = "orders"
            name = "billing"

            async def process_event(self, event):
                await send_invoice(event.json())

        await Billing("dbname=shop").run()
    """

    if TYPE_CHECKING:
        # mypy compares a method without its self, pyright with it.
        process_event: Callable[[Event], Awaitable[None]] | Callable[[Any, Event], Awaitable[None]]
        process_batch: (
            Callable[[AsyncOpenBatch], Awaitable[None]]
            | Callable[[Any, AsyncOpenBatch], Awaitable[None]]
        )


class AsyncTransactionalConsumer(AsyncRunnableConsumer):
    """Processes events in the transaction that finishes their batch, or part of it.

    As AsyncConsumer, but the handler also gets the connection: `process_event(self, event,
    connection)` or `process_batch(self, batch, connection)`. What it writes there is committed
    together with the batch: each event's effect happens once (G9).

        class Revenue(AsyncTransactionalConsumer):
            queue = "orders"
            name = "revenue"

            async def process_event(self, event, connection):
                await connection.execute("insert into spent values (%s)", [event.data])
    """

    is_transactional = True

    if TYPE_CHECKING:
        process_event: (
            Callable[[Event, AsyncConnection[Any]], Awaitable[None]]
            | Callable[[Any, Event, AsyncConnection[Any]], Awaitable[None]]
        )
        process_batch: (
            Callable[[AsyncOpenBatch, AsyncConnection[Any]], Awaitable[None]]
            | Callable[[Any, AsyncOpenBatch, AsyncConnection[Any]], Awaitable[None]]
        )
