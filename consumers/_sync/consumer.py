"""[Generated from _async/consumer.py by tools/unasync.py: edit that file, not this one.] The classes that applications subclass, and what they have in common: start, reconnect, stop."""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.errors import LockNotAvailable
from tenacity import Retrying, retry_if_exception, wait_random_exponential

from pgqpy.consumers import own_task
from pgqpy.consumers._sync.at_least_once import AtLeastOnceLoop
from pgqpy.consumers._sync.lock import RunningLock
from pgqpy.consumers._sync.loop import RunState, no_progress
from pgqpy.consumers._sync.session import LOCK_TIMEOUT, Session
from pgqpy.consumers._sync.transactional import TransactionalLoop
from pgqpy.consumers.connections import is_a, is_loss, is_session_lost
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, StopRequested
from pgqpy.consumers.log import finishing, log_ended, log_lost
from pgqpy.consumers.measures import Outage
from pgqpy.consumers.parts import Attempts
from pgqpy.consumers.retry import seconds
from pgqpy.consumers.settings import SETTINGS, BaseConsumer, check, fix, unfix
from pgqpy.consumers.signals import FORKED, protect, stop_on_signals, unprotect
from pgqpy.consumers.waiting import Wakeup
from pgqpy.settings import default_dsn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from psycopg import Connection
    from tenacity import RetryCallState
    from typing_extensions import Self, Unpack

    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers._sync.claimed_list import ClaimedList
    from pgqpy.consumers._sync.drain import Drain
    from pgqpy.consumers._sync.loop import Loop
    from pgqpy.consumers._sync.shared import SharedRun
    from pgqpy.consumers.measures import Drained
    from pgqpy.consumers.settings import ConsumerSettings
    from pgqpy.records import Event

logger = logging.getLogger("pgqpy.consumers")

RECONNECT_BASE, RECONNECT_MAX = 0.1, 10.0  # seconds


class RunnableConsumer(BaseConsumer):
    """What all consumers have: start, reconnect and stop."""

    session_kind: type[Session] = Session

    def __init__(self, dsn: str | None = None, **settings: Unpack[ConsumerSettings]) -> None:
        super().__init__(dsn, **settings)
        self._pgq_stop: Wakeup = Wakeup()
        self._pgq_started: Callable[[], object] = no_progress  # for running()
        self._pgq_drain: Drain | None = None
        self._pgq_state = self._pgq_new_state(RunningLock(self.queue, self.name))
        self._pgq_session: Session | None = None
        self._pgq_loop: Loop | None = None
        self._pgq_shared: SharedRun | None = None  # of a run of a shared consumer
        self._pgq_waits = True
        self._pgq_worked = False  # a session of this run was registered, and had the lock
        self._pgq_lost = False  # a session of this run was lost
        self._pgq_forked = False

    def run(self, *, wait: bool = True, signals: bool | None = None) -> None:
        """Register the consumer and process events until `stop()`, SIGTERM, SIGINT or SIGHUP.

        A second signal does not wait for the handler. After a lost connection it reconnects, as
        often as needed. A plain consumer gets its unfinished batch again; while another process
        runs it, it waits as a standby, and takes over when that one ends.

        Raises ConsumerRunning instead of waiting if not `wait`; QueueNotFound, SchemaMissing and
        ConnectionFailed when it cannot start, and with `on_error = "stop"` the exception of the
        handler. SystemExit and KeyboardInterrupt of a handler end it too; its events come again.
        `signals` in place of the setting says whether signals end it.
        """
        check(self)  # an attribute may have been set since it was made
        fix(self, SETTINGS)
        signals = self.signals if signals is None else signals
        try:
            self._pgq_begin(wait=wait)
            stopping = stop_on_signals(self._pgq_stop_on_signal) if signals else nullcontext()
            with stopping, self._pgq_watched():
                work = self._pgq_work
                own_task.run_in_own_task(work, partial(BaseConsumer.stop, self))
        except StopRequested:
            pass
        except HandlerFailed as failure:
            self._pgq_handler_error = failure.error
        finally:
            self._pgq_end()
        if self._pgq_handler_error is not None:
            raise self._pgq_handler_error

    def running(
        self, *, wait: bool = True, on_failure: Callable[[BaseException], object] | None = None
    ) -> AbstractContextManager[Self]:
        """Run it beside the program's own work, for as long as the block lasts.

        The block begins when the consumer has started: what `run()` raises when it cannot start is
        raised there. It handles no signals. At the block's end it stops, and the event at hand has
        `stop_timeout` to be finished. An error that ends the run before is logged at once, given to
        `on_failure`, and raised at the block's end.

            with Billing(dsn).running():
                serve()
        """
        from pgqpy.consumers.beside import beside  # noqa: PLC0415  # seldom needed

        def run(started: Callable[[], object]) -> None:
            self._pgq_started = started
            self.run(wait=wait, signals=False)

        return beside(self, run, on_failure)

    def drain(
        self,
        timeout: timedelta | float = 30.0,
        *,
        retries: bool = False,
        raise_errors: bool = False,
    ) -> Drained:
        """Tick, and process events until nothing is due: for tests, scripts and cron jobs.

        It returns how many events were handled, retried and made dead. Retries that are due later
        stay, or are waited for with `retries`. The role needs pgq_ticker.

        Raises TimeoutError if there was more to do after `timeout` (seconds, or a timedelta), with
        `raise_errors` the first exception of a handler, ConsumerRunning if another process runs a
        plain consumer, and what `run()` raises when it cannot start.
        """
        from pgqpy.consumers._sync.drain import Drain  # noqa: PLC0415  # seldom needed

        drain = Drain(self, seconds(timeout), retries=retries)
        own = vars(self).get("on_error")
        if raise_errors:
            self.on_error = "stop"
        self._pgq_drain = drain
        drain.begin()
        try:
            self.run(wait=False, signals=False)
        finally:
            drain.end()
            self._pgq_drain = None
            if raise_errors:
                vars(self).pop("on_error")
            if own is not None:
                self.on_error = own
        return drain.result()

    def _pgq_begin(self, *, wait: bool) -> None:
        self._pgq_worked = self._pgq_lost = self._pgq_forked = False
        self._pgq_handler_error, self._pgq_waits = None, wait
        protect(self)
        lock = self._pgq_state.lock  # it knows the last session, which may not have ended
        if (lock.queue, lock.name) != (self.queue, self.name):
            lock = RunningLock(self.queue, self.name)
        self._pgq_state = self._pgq_new_state(lock)
        self._pgq_stop.open()

    def _pgq_new_state(self, lock: RunningLock) -> RunState:
        return RunState(self, self._pgq_stop, lock, Attempts(self), self._pgq_drain)

    @contextmanager
    def _pgq_watched(self) -> Iterator[None]:
        if self.handler_timeout is None:
            yield
            return
        from pgqpy.consumers.handler_watch import watch_handlers  # noqa: PLC0415  # seldom needed

        with watch_handlers(self) as self._pgq_state.watch:
            yield

    def _pgq_end(self) -> None:
        unprotect(self)
        self._pgq_outage, self._pgq_started = Outage(), no_progress
        self._pgq_stop.close()
        unfix(self)
        if self._pgq_forked:
            raise RuntimeError(FORKED)

    def _pgq_work(self) -> None:
        if not self.is_shared:
            self._pgq_reconnect_and_serve()
            return
        from pgqpy.consumers._sync.shared import SharedRun  # noqa: PLC0415  # plain ones need none

        dsn = default_dsn() if self.dsn is None else self.dsn
        self._pgq_shared = shared = SharedRun(self._pgq_state, dsn)
        try:
            self._pgq_reconnect_and_serve()
        finally:
            shared.close()
            self._pgq_shared = None

    def _pgq_reconnect_and_serve(self) -> None:
        attempts = Retrying(
            retry=retry_if_exception(self._pgq_may_reconnect),
            wait=wait_random_exponential(multiplier=RECONNECT_BASE, max=RECONNECT_MAX),
            sleep=self._pgq_stop.wait,
            before_sleep=self._pgq_log_lost,
            reraise=True,
        )
        for attempt in attempts:
            with attempt:
                self._pgq_serve(attempt.retry_state)

    def _pgq_serve(self, state: RetryCallState) -> None:
        """Run one session: connect, take the lock of a plain consumer, process until `stop`."""

        def progress() -> None:
            state.attempt_number = 1  # the next loss is a new one: no long delay for it

        if self._pgq_stop.is_set:
            return
        dsn = default_dsn() if self.dsn is None else self.dsn
        self._pgq_state.progress = progress
        name, shared = f"pgqpy consumer {self.name}", self._pgq_shared
        session = self.session_kind.open(dsn, name, LOCK_TIMEOUT, any_session=self.is_shared)
        self._pgq_session = session
        try:
            if shared is None:
                self._pgq_prepare(session)
                self._pgq_run_loop(session)
            else:
                shared.begin(session)
                self._pgq_started()
                self._pgq_log_runs()
                shared.serve(session, progress)
            logger.info("consumer %s of queue %s stops", self.name, self.queue)
        except BaseException as error:
            if not is_a(error, HANDLER_ERRORS):
                self._pgq_log_ended(error)
            raise
        finally:
            if session.ready:
                self._pgq_outage = None
            self._pgq_session = self._pgq_loop = None
            session.close()

    def _pgq_run_loop(self, session: Session) -> None:
        kind = TransactionalLoop if self.is_transactional else AtLeastOnceLoop
        self._pgq_loop = loop = kind(self._pgq_state, session)
        try:
            loop.run()
        except MemoryError:
            raise  # an event may have taken the memory: its attempt counts
        except HANDLER_ERRORS as error:
            if not self._pgq_may_reconnect(error):
                loop.release()
            raise
        loop.release()

    def _pgq_prepare(self, session: Session) -> None:
        if not self._pgq_worked:
            # Only at the start: one that was unregistered during an outage would lose events.
            session.register(self.queue, self.name)
        if self._pgq_waits:
            self._pgq_started()  # the lock may be another process's for days
        self._pgq_state.lock.take(session, self._pgq_stop, wait=self._pgq_waits)
        self._pgq_started()
        session.set_filter(self)
        session.listen(self.queue)
        if self.is_transactional:
            session.restore_settings()
        self._pgq_log_runs(": its unfinished batch is delivered again")

    def _pgq_log_runs(self, what: str = "") -> None:
        again = f" again{what}" if self._pgq_worked else ""
        logger.info("consumer %s of queue %s runs%s", self.name, self.queue, again)
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
        in_progress = self._pgq_in_progress()
        return finishing(self, in_progress) if in_progress else None

    def _pgq_in_progress(self) -> str | None:
        working = self._pgq_shared or self._pgq_loop
        return None if working is None else working.in_progress

    def _pgq_log_ended(self, error: BaseException) -> None:
        in_progress = self._pgq_in_progress()
        if in_progress and not self._pgq_forked:
            log_ended(self, in_progress, error)

    def after_fork(self) -> list[int]:
        """Note that this is a forked child; return the sockets that it must not use."""
        self._pgq_forked = True
        self._pgq_state.attempts.held = None  # nothing is released here
        self._pgq_stop.abandon()
        session, shared = self._pgq_session, self._pgq_shared
        own = [] if session is None or session.lost else [session.connection.fileno()]
        return own if shared is None else [*own, *shared.files()]


class Consumer(RunnableConsumer):
    """Processes the events of a queue, from the position of one registered consumer on.

    Subclass it, set `queue` and `name`, and write `process_event(self, event)`, or
    `process_batch(self, batch)` for a batch at a time, or a part of it with `part_size` events. An
    exception of `process_event` puts the event into the retry queue with growing delays, and after
    `max_retries` makes it a dead event; after one of `process_batch` all its events are delivered
    again. `Retry(after=…)` asks for a delay. With `on_error = "stop"` the first exception ends
    `run()` and leaves the batch unfinished. A shared consumer gets single events, or lists of at
    most `limit` events.

    Events are delivered at least once; with TransactionalConsumer each effect happens once.

        class Billing(Consumer):
            queue = "orders"
            name = "billing"

            def process_event(self, event):
                send_invoice(event.json())

        Billing("dbname=shop").run()
    """

    if TYPE_CHECKING:

        def process_event(self, event: Event, /) -> None:
            """Handle one event."""

        # mypy compares a method without its self, pyright with it.
        process_batch: (
            Callable[[OpenBatch], None]
            | Callable[[Any, OpenBatch], None]
            | Callable[[ClaimedList], None]
            | Callable[[Any, ClaimedList], None]
        )


class TransactionalConsumer(RunnableConsumer):
    """Processes events in the transaction that finishes them.

    As Consumer, but the handler also gets the connection: `process_event(self, event,
    connection)` or `process_batch(self, batch, connection)`. What it writes there is committed
    together with the end of the batch, part, event or list: each effect happens once (G9).

        class Revenue(TransactionalConsumer):
            queue = "orders"
            name = "revenue"

            def process_event(self, event, connection):
                connection.execute("insert into spent values (%s)", [event.data])
    """

    is_transactional = True

    if TYPE_CHECKING:

        def process_event(
            self, event: Event, connection: Connection[Any], /
        ) -> None:
            """Handle one event, and write over the connection."""

        process_batch: (
            Callable[[OpenBatch, Connection[Any]], None]
            | Callable[[Any, OpenBatch, Connection[Any]], None]
            | Callable[[ClaimedList, Connection[Any]], None]
            | Callable[[Any, ClaimedList, Connection[Any]], None]
        )
