"""[Generated from _async/transactional.py by tools/unasync.py: edit that file, not this one.] Exactly once in the queue's database (G9): handlers work in the transaction of finish_batch.

Events have no savepoints at first. If process_event raises, the transaction is rolled back, and the
batch is processed again with a savepoint around each event: only the failing event is retried. If
process_batch raises, its transaction is rolled back, and the events are delivered again.

A batch of a million events in one transaction would be repeated from its beginning after a crash,
and would hold back vacuum while it lasts. So the batch is opened in a transaction of its own. Then
each part is handled in a transaction that finishes the part. A part was read before its transaction
began. So the transaction finishes it only if the position is still the one that it was read at:
else another session has handled some of its events, and the transaction is rolled back (G5).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import (
    InvalidSavepointSpecification,
    NoActiveSqlTransaction,
    ReadOnlySqlTransaction,
)

from pgqpy.calls import consume, transaction
from pgqpy.consumers._sync.at_least_once import OPEN_SETTINGS
from pgqpy.consumers._sync.batch import PartReader
from pgqpy.consumers._sync.handler_connection import check_open, ended
from pgqpy.consumers._sync.loop import Loop
from pgqpy.consumers.connections import (
    is_collision,
    is_loss,
    is_transaction_ended,
    transaction_ended,
)
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.retry import backoff
from pgqpy.errors import BatchLost, NotFound
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.consumers._sync.loop import RunState
    from pgqpy.consumers._sync.session import Session
    from pgqpy.records import Batch, Event


logger = logging.getLogger("pgqpy.consumers")

REPEAT_BASE, REPEAT_MAX = 0.01, 5.0  # seconds before a transaction that collided is repeated
MANY_COLLISIONS = 5  # in a row; more are a warning


def call_handler(
    session: Session, handler: Callable[..., Any], event: Event
) -> BaseException | None:
    """Call the handler in a savepoint; if it fails, undo what it did and return its exception.

    What concerns the whole transaction (a collision, its end, a lost connection) is raised.
    """
    connection = session.connection
    connection.execute("savepoint pgqpy_event")
    try:
        with connection.lent() as lent:
            check_result(handler(event, lent))
        check_open(connection)
        session.runner.run_all(*transaction.CHECK_AND_RELEASE)
    except HANDLER_ERRORS as error:
        raise_if_cancelled(error)
        collided = connection.collided(error)
        if session.lost or collided or is_transaction_ended(error):
            raise HandlerFailed(error, collided=collided) from error
        _undo(session)
        return error
    return None


def _undo(session: Session) -> None:
    try:
        session.runner.run_all(*transaction.UNDO)
        session.runner.forget_prepared()  # the handler may have had a pipeline of its own
    except (InvalidSavepointSpecification, NoActiveSqlTransaction) as error:
        raise HandlerFailed(transaction_ended()) from error


class TransactionalLoop(Loop):
    """One transaction a part: the handlers, finish_part or finish_batch, COMMIT.

    With the extension pgq, which has no parts, it is one a batch.
    """

    def __init__(self, state: RunState, session: Session) -> None:
        super().__init__(state, session)
        self.open_settings = OPEN_SETTINGS if self.by_event else ()
        self.info: Batch | None = None  # of the part at hand
        self._reader: PartReader | None = None
        self._events: list[Event] | None = None  # of the part; None: the whole batch
        self._finished = False  # the part that was read last
        self._use_savepoints = False
        self._collisions = 0  # in a row

    def run(self) -> None:
        """Work until `stop`; the part at hand is then rolled back unless all of it was handled."""
        try:
            while not self.stop.is_set:
                if not self.process_next():
                    self.wait()
        finally:
            self._close_reader()

    def process_next(self) -> bool:
        """Process the next part; False if there is none."""
        self.info = self.event = None
        try:
            info = self._read_part()
            handled = info is not None and self._process_in_transaction(info)
        except BatchLost as error:
            if self.info is None or not self.is_batch_lost(self.info, error):
                raise
            self._pause()  # a handler that moves its own consumer does so again and again
        except NotFound as error:
            self.event_not_in_batch(self.info, error)
        except (HandlerFailed, psycopg.Error) as error:
            self._after_rollback(error)
        else:
            if handled:
                self._finished, self._use_savepoints, self._collisions = True, False, 0
                self.state.losses.clear()
                self.position = None if self.position is None else self.position + 1
                self.finished(self.current, whole=self._at_end)
        return self.info is not None

    def _read_part(self) -> Batch | None:
        """Read the next part, of the open batch or of the next one; None if there is none."""
        reader = self._reader
        if reader is not None and (
            reader.last or not self._finished or reader.size != self.attempts.size
        ):
            self._close_reader()
        self._finished, self._events = False, None
        if self._reader is None:
            _, self.info = self.open_next()
            if self.info is None or self.session.extension:
                return self.info
            self._reader = PartReader(self.session, self.info, int(self.attempts.size))
        self.info = self._reader.info
        self._events = self._reader.next()
        return self.info

    def _process_in_transaction(self, info: Batch) -> bool:
        """Process the part that was read; False if `stop` came before its end."""
        with ExitStack() as own:
            with self.session.connection.transaction() as block:
                handled = self._process(info)
                block.force_rollback = not handled
                own.enter_context(self.session.calls.running())  # COMMIT may wait for a standby
                # Or for a lock, in a deferred trigger of handlers' rows.
                own.enter_context(self.watching(f"the COMMIT of batch {info.id}"))
        return handled

    def _process(self, info: Batch) -> bool:
        """Handle and finish the part; False if `stop` came before."""
        self.send(transaction.mark_call(self.session.role), transaction.NO_LOCK_TIMEOUT)
        batch, events = self.make_batch(info, self._events), self._events
        if not (events and self.bury_killer(batch, events)) and not self._handle(batch):
            return False
        raise_if_cancelled()
        check_open(self.session.connection)
        finish = self._finish_calls(batch)
        results = self._send_own(*batch.failures.take(), *finish)
        if not all(results[-len(finish) :]):
            raise BatchLost(batch_id=batch.info.id)
        return True

    def _finish_calls(self, batch: OpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the part, and the batch after its last part."""
        whole = [consume.finish_batch(batch.info)]
        if not self._events:
            return whole  # the batch has no event, or no parts
        attempts = self.attempts.after_part()
        last_id, place = self._events[-1].id, self.position
        part = consume.finish_part(batch.info, last_id, position=place, attempts=attempts)
        return [part, *whole] if self._at_end else [part]

    @property
    def _at_end(self) -> bool:
        """Whether the part at hand is the last one of its batch."""
        return self._reader is None or self._reader.last

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _handle(self, batch: OpenBatch) -> bool:
        """Call the handler for a part; False if `stop` came before its end."""
        if self.by_event:
            return self._process_events(batch)
        with self.session.connection.lent() as lent:
            return self.handle_batch(batch, lent)

    def _process_events(self, batch: OpenBatch) -> bool:
        # Savepoints also find the event that loses the connection.
        savepoints = self._use_savepoints or self.state.losses.begun
        handle = self._with_savepoint if savepoints else self._without_savepoint
        with closing(batch.fetch()) as lists:
            for events in lists:
                for event in events:
                    if self.session.calls.may_have_ended:
                        self.session.check_session()
                    if self.stop.is_set:
                        return False
                    self.event = event
                    handle(batch, event)
                if batch.failures.full or self._events is None:
                    # Before the next events of a batch without parts are read.
                    self._send_own(*batch.failures.take())
        return True

    def _send_own(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls of our own in the handlers' transaction; reset role and timeouts.

        Raises WrongTransaction if a handler ended the transaction, and LockNotAvailable after a
        while: handlers may wait for locks as long as they like, but a consumer that waits hears no
        `stop`.
        """
        session = self.session
        same = transaction.is_same_call(session.role, session.lock_timeout, pooled=session.pooled)
        is_same, *results, _ = self.send(same, *wanted, transaction.NO_LOCK_TIMEOUT)
        if not is_same:
            raise transaction_ended()
        return results

    def _without_savepoint(self, _batch: OpenBatch, event: Event) -> None:
        connection = self.session.connection
        try:
            with connection.lent() as lent:
                check_result(self.process_event(event, lent))
            check_open(connection)
        except HANDLER_ERRORS as error:
            raise_if_cancelled(error)
            if ended(connection):
                raise HandlerFailed(transaction_ended()) from error
            raise HandlerFailed(error, collided=connection.collided(error)) from error

    def _with_savepoint(self, batch: OpenBatch, event: Event) -> None:
        error = self.state.losses.failure_of(event.id)
        if error is None:
            error = call_handler(self.session, self.process_event, event)
        if error is None:
            return
        if self.wants_stop(error):
            raise HandlerFailed(error)
        batch.failures.judge(event, error)

    def _after_rollback(self, error: HandlerFailed | psycopg.Error) -> None:
        """Repeat a transaction that was rolled back, wait first, or raise the error."""
        error = self._blame(error)
        if isinstance(error, HandlerFailed):
            cause: BaseException = error.error
            collided = error.collided
        else:
            cause, collided = error, is_collision(error)
        if self.session.lost:
            if self.event is not None:
                self.state.losses.lost_at(self.event.id)
            reason = describe(cause)
            raise psycopg.OperationalError(f"connection lost in the middle of a batch: {reason}")
        if collided:
            level = logging.INFO if self._collisions < MANY_COLLISIONS else logging.WARNING
            text = "the transaction collided with another one %d times in a row, and is repeated"
            logger.log(level, text, self._collisions + 1)
            self._pause()
        elif self.info is None or is_transaction_ended(cause) or is_loss(error):
            raise error
        elif self.by_event and not self._use_savepoints and not self.wants_stop(cause):
            self._use_savepoints = True
        elif self.wants_stop(cause) or self.by_event:
            raise error
        else:
            self.back_off(self.info, cause)

    def _blame(self, error: HandlerFailed | psycopg.Error) -> HandlerFailed | psycopg.Error:
        """Blame a handler for what COMMIT finds, and for a read-only transaction.

        The latter unless a new one is read only too. Only handlers write rows with constraints that
        are deferred.
        """
        if self.info is not None and isinstance(error, psycopg.IntegrityError):
            return HandlerFailed(error)
        if self.info is None or not isinstance(error, ReadOnlySqlTransaction):
            return error
        failover = self.session.runner.run(transaction.READ_ONLY)
        return error if failover else HandlerFailed(error)

    def _pause(self) -> None:
        """Wait before a transaction is repeated: longer each time in a row."""
        delay = backoff(self._collisions, base=REPEAT_BASE, maximum=REPEAT_MAX)
        self._collisions += 1
        self.stop.wait(delay)
