"""[Generated from _async/transactional.py by tools/unasync.py: edit that file, not this one.] Exactly once at home (G9): handlers work in the transaction that finishes the batch.

Events have no savepoints at first. If process_event raises, the transaction is rolled back, and the
batch is processed again with a savepoint around each event: only the failing event is retried. If
process_batch raises, the whole batch is rolled back and delivered again.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from pgqpy.calls import consume
from pgqpy.consumers._sync import savepoint
from pgqpy.consumers._sync.handler_connection import check_open, ended
from pgqpy.consumers._sync.loop import Loop
from pgqpy.consumers.connection_errors import (
    is_collision,
    is_loss,
    is_transaction_ended,
    transaction_ended,
)
from pgqpy.consumers.handler_watch import watching
from pgqpy.consumers.handlers import HANDLER_ERRORS, HandlerFailed, check_result
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.parts import list_size
from pgqpy.consumers.retry import backoff
from pgqpy.errors import BatchLost, NotFound
from pgqpy.texts import describe

if TYPE_CHECKING:
    from pgqpy.calls import Call
    from pgqpy.consumers._sync.batch import OpenBatch
    from pgqpy.records import Batch, Event

logger = logging.getLogger("pgqpy.consumers")

COLLISION_BASE = 0.01  # seconds
COLLISION_MAX = 5.0  # seconds
MANY_COLLISIONS = 5  # in a row; more are a warning


class TransactionalLoop(Loop):
    """One transaction a batch: next_batch, the handlers, finish_batch, COMMIT.

    So with the extension pgq. With our schema see TransactionalParts.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info: Batch | None = None  # of the open transaction
        # Whether batches of parked events have savepoints, and ordinary ones. They take turns: the
        # end of one says nothing about the other, which failed.
        self._use_savepoints = {True: False, False: False}
        self._collisions = 0  # in a row

    def run(self) -> None:
        """Work until `stop`; the open batch is then rolled back unless all of it was handled."""
        while not self.stop.is_set:
            if not self.process_next():
                self.wait()

    def process_next(self) -> bool:
        """Process the next batch; False if there is none."""
        self.info = self.event = None
        try:
            handled = self._process_in_transaction()
        except BatchLost as error:
            if self.info is None or not self.is_batch_lost(self.info, error):
                raise
            self._pause()  # a handler that moves its own consumer does so again and again
        except NotFound as error:
            self.event_not_in_batch(self.info, error)
        except (HandlerFailed, psycopg.Error) as error:
            self._after_rollback(error)
        else:
            if handled and self.info is not None:
                self._use_savepoints[self.info.parked] = False
                self._collisions = 0
                self.losses.clear()
                self.batch_finished()
        return self.info is not None

    def _process_in_transaction(self) -> bool:
        """Process the next batch, if there is one; False if `stop` came before its end."""
        if not self.before_transaction():
            return False
        with ExitStack() as own:
            with self.session.connection.transaction() as transaction:
                handled = self._process()
                transaction.force_rollback = not handled
                own.enter_context(self.session.calls.running())  # COMMIT may wait for a standby
                if self.info is not None:  # or for a lock, in a deferred trigger of handlers' rows
                    what = f"the COMMIT of batch {self.info.id}"
                    own.enter_context(watching(self.watch, what))
        return handled

    def before_transaction(self) -> bool:
        """Do what comes before the transaction of a batch or part; False if there is none."""
        return True

    def open(self) -> OpenBatch | None:
        """Open the next batch in the transaction; None if there is none."""
        mark = savepoint.mark_transaction_call(self.session.role)
        _, self.info = self.open_next(mark, after=savepoint.NO_LOCK_TIMEOUT)
        return None if self.info is None else self.make_batch(self.info)

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> OpenBatch:
        """As in the base class. The batch also calls `confirm` between two events, if in doubt."""
        batch = super().make_batch(info, part)
        if not self.by_event:
            batch.held, batch.confirm = self.held, self.confirm
        return batch

    def confirm(self, _batch: Batch) -> None:
        """Check the session, unless a statement or COPY of the handler has it."""
        if not self.session.connection.lock.locked():
            self.check_session()

    def finish_calls(self, batch: OpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the batch."""
        return [consume.finish_batch(batch.info)]

    def _process(self) -> bool:
        """Handle and finish the next batch, if there is one; False if `stop` came before."""
        batch = self.open()
        if batch is None:
            return True
        if not self.handle(batch):
            return False
        raise_if_cancelled()
        check_open(self.session.connection)
        finish = self.finish_calls(batch)
        results = self._send_own(*batch.failures.take(), *finish)
        if not all(results[-len(finish) :]):
            raise BatchLost(batch_id=batch.info.id)
        return True

    def handle(self, batch: OpenBatch) -> bool:
        """Call the handler for a batch; False if `stop` came before its end."""
        if self.by_event:
            return self._process_events(batch)
        with self.session.connection.lent() as lent:
            return self.handle_batch(batch, lent)

    def _process_events(self, batch: OpenBatch) -> bool:
        # Savepoints also find the event that loses the connection.
        savepoints = self._use_savepoints[batch.info.parked] or self.losses.begun
        handle = self._with_savepoint if savepoints else self._without_savepoint
        with closing(batch.fetch()) as lists:
            for events in lists:
                self.parking.look_up(batch.info, events, batch.failures.parked_keys)
                with self.pace:
                    for event in events:
                        if self.held.must_check:
                            self.check_session()
                        if self.stop.is_set:
                            return False
                        if self.parking.parked and self.parking.waits(event):
                            batch.failures.wait_behind(event)
                            continue
                        self.event = event
                        handle(batch, event)
                if batch.failures.full:
                    self._send_own(*batch.failures.take())
                elif self.careful.part_size is None and len(events) >= list_size(self.consumer):
                    self._send_own()  # before the next events are read
        return True

    def _send_own(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls of our own in the handlers' transaction; reset role and timeouts.

        Raises WrongTransaction if a handler ended the transaction, and LockNotAvailable after a
        while: handlers may wait for locks as long as they like, but a consumer that waits hears no
        `stop`.
        """
        same = savepoint.same_transaction_call(self.session.role, self.session.lock_timeout)
        is_same, *results, _ = self.send(same, *wanted, savepoint.NO_LOCK_TIMEOUT)
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
        error = self.losses.failure_of(event.id)
        if error is None:
            error = savepoint.call_handler(self.session, self.process_event, event)
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
                self.losses.lost_at(self.event.id)
            reason = describe(cause)
            raise psycopg.OperationalError(f"connection lost in the middle of a batch: {reason}")
        if collided:
            level = logging.INFO if self._collisions < MANY_COLLISIONS else logging.WARNING
            text = "the transaction collided with another one %d times in a row, and is repeated"
            logger.log(level, text, self._collisions + 1)
            self._pause()
        elif self.info is None or is_transaction_ended(cause) or is_loss(error):
            raise error
        elif (
            self.by_event
            and not self._use_savepoints[self.info.parked]
            and not self.wants_stop(cause)
        ):
            self._use_savepoints[self.info.parked] = True
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
        failover = self.session.runner.run(savepoint.READ_ONLY)
        return error if failover else HandlerFailed(error)

    def _pause(self) -> None:
        """Wait before a transaction is repeated: longer each time in a row."""
        delay = backoff(self._collisions, base=COLLISION_BASE, maximum=COLLISION_MAX)
        self._collisions += 1
        self.stop.wait(delay)
