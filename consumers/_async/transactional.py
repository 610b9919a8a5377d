"""Exactly once in the queue's database (G9): handlers work in the transaction of finish_batch.

Events have no savepoints at first. If process_event raises, the transaction is rolled back, and the
batch is processed again with a savepoint around each event: only the failing event is retried. If
process_batch raises, its transaction is rolled back, and the events are delivered again.

A batch of a million events in one transaction would be repeated from its beginning after a crash,
and would hold back vacuum while it lasts. So the batch is opened in a transaction of its own. Then
each part is handled in a transaction that finishes the part. A part was read before its transaction
began. So the transaction finishes it only if the position is still the one that it was read at:
else another session has handled some of its events. So does a worker that lost its batch: finishing
is refused, and the transaction is rolled back (G5).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import (
    InvalidSavepointSpecification,
    NoActiveSqlTransaction,
    ReadOnlySqlTransaction,
)

from pgqpy.calls import Call, consume
from pgqpy.consumers import waiting
from pgqpy.consumers._async.batch import AsyncPartReader
from pgqpy.consumers._async.handler_connection import check_open, ended
from pgqpy.consumers._async.loop import AsyncLoop
from pgqpy.consumers._async.plain import OPEN_SETTINGS, AsyncPlainLoop
from pgqpy.consumers.connections import (
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
    from collections.abc import Callable

    from pgqpy.consumers._async.batch import AsyncOpenBatch
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch, Event


logger = logging.getLogger("pgqpy.consumers")

COLLISION_BASE = 0.01  # seconds
COLLISION_MAX = 5.0  # seconds
MANY_COLLISIONS = 5  # in a row; more are a warning


def _flag(rows: list[tuple[Any, ...]]) -> bool:
    return rows[0][0] in ("1", "on")


def _nothing(_rows: list[tuple[Any, ...]]) -> None:
    return None


# The values of SETTINGS. Before PostgreSQL 17 there is no transaction_timeout, and set_config
# would refuse the name.
NO_TIMEOUTS = """
    pg_catalog.set_config('lock_timeout', {}, true),
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true),
    case when pg_catalog.current_setting('transaction_timeout', true) is not null
         then pg_catalog.set_config('transaction_timeout', '0', true) end"""
IS_SAME = f"""
    select pg_catalog.current_setting('pgqpy.transaction', true),
           pg_catalog.set_config('role', %s, true),
           pg_catalog.set_config('default_transaction_isolation', 'read committed', %s),
           {NO_TIMEOUTS.format("%s")}"""

# The session's own lock_timeout is for our statements.
NO_LOCK_TIMEOUT = Call(
    "set_config", "select pg_catalog.set_config('lock_timeout', '0', true)", (), _nothing
)

# Outside a transaction: whether a new one would be read only, as on a standby.
READ_ONLY = Call(
    "current_setting", "select pg_catalog.current_setting('transaction_read_only')", (), _flag
)


def mark_transaction_call(role: str) -> Call[None]:
    """Set the consumer's role, and the mark that `same_transaction_call` looks for.

    The mark is a setting that ends with the transaction.
    """
    query = """
        select pg_catalog.set_config('pgqpy.transaction', '1', true),
               pg_catalog.set_config('role', %s, true)"""
    return Call("set_config", query, (role,), _nothing)


def same_transaction_call(role: str, lock_timeout: str, *, pooled: bool) -> Call[bool]:
    """Ask whether this is the marked transaction; reset role, isolation of the next, and timeouts.

    Calls of our own follow, with this limit for a wait for a lock.

    A handler may have ended the transaction, even begun another one. It may have set a role for
    its tenant, or a timeout that suits its own statements. A session that a pooler shares keeps
    none of our settings.
    """
    return Call("current_setting", IS_SAME, (role, pooled, lock_timeout), _flag)


# A deferred constraint fails at COMMIT, when the event that broke it is unknown. So constraints
# are checked after each event; the rollback to the inner savepoint makes them deferred again.
# "set transaction read write" is refused in a savepoint if the handler made it read only.
# Nothing is prepared: the server skips statements behind one that fails, and psycopg would take
# them for prepared.
CHECK_AND_RELEASE = tuple(
    Call("savepoint", statement, (), _nothing, prepare=False)
    for statement in (
        "select" + NO_TIMEOUTS.format("'0'"),
        "set transaction read write",
        "savepoint pgqpy_check",
        "set constraints all immediate",
        "rollback to savepoint pgqpy_check",
        "release savepoint pgqpy_event",
    )
)
UNDO = tuple(
    Call("savepoint", statement, (), _nothing, prepare=False)
    for statement in ("rollback to savepoint pgqpy_event", "release savepoint pgqpy_event")
)


async def call_handler(
    session: AsyncSession, handler: Callable[..., Any], event: Event
) -> BaseException | None:
    """Call the handler in a savepoint; if it fails, undo what it did and return its exception.

    What concerns the whole transaction (a collision, its end, a lost connection) is raised.
    """
    connection = session.connection
    await connection.execute("savepoint pgqpy_event")
    try:
        async with connection.lent() as lent:
            check_result(await handler(event, lent))
        check_open(connection)
        await session.runner.run_all(*CHECK_AND_RELEASE)
    except HANDLER_ERRORS as error:
        raise_if_cancelled(error)
        collided = connection.collided(error)
        if session.lost or collided or is_transaction_ended(error):
            raise HandlerFailed(error, collided=collided) from error
        await _undo(session)
        return error
    return None


async def _undo(session: AsyncSession) -> None:
    try:
        await session.runner.run_all(*UNDO)
        await session.runner.forget_prepared()  # the handler may have had a pipeline of its own
    except (InvalidSavepointSpecification, NoActiveSqlTransaction) as error:
        raise HandlerFailed(transaction_ended()) from error


class AsyncTransactionalLoop(AsyncLoop):
    """One transaction a batch: next_batch, the handlers, finish_batch, COMMIT.

    So with the extension pgq. With our schema see AsyncTransactionalParts.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.info: Batch | None = None  # of the open transaction
        # Whether batches of parked events have savepoints, and ordinary ones. They take turns: the
        # end of one says nothing about the other, which failed.
        self._use_savepoints = {True: False, False: False}
        self._collisions = 0  # in a row

    async def run(self) -> None:
        """Work until `stop`; the open batch is then rolled back unless all of it was handled."""
        while not self.stop.is_set:
            if not await self.process_next():
                await self.wait()

    async def process_next(self) -> bool:
        """Process the next batch; False if there is none."""
        self.info = self.event = None
        try:
            handled = await self._process_in_transaction()
        except BatchLost as error:
            if self.info is None or not await self.is_batch_lost(self.info, error):
                raise
            await self._pause()  # a handler that moves its own consumer does so again and again
        except NotFound as error:
            await self.event_not_in_batch(self.info, error)
        except (HandlerFailed, psycopg.Error) as error:
            await self._after_rollback(error)
        else:
            if handled and self.info is not None:
                self._use_savepoints[self.info.parked] = False
                self._collisions = 0
                self.losses.clear()
                await self.batch_finished()
        return self.info is not None

    async def _process_in_transaction(self) -> bool:
        """Process the next batch, if there is one; False if `stop` came before its end."""
        if not await self.before_transaction():
            return False
        with ExitStack() as own:
            async with self.session.connection.transaction() as transaction:
                handled = await self._process()
                transaction.force_rollback = not handled
                own.enter_context(self.session.calls.running())  # COMMIT may wait for a standby
                if self.info is not None:  # or for a lock, in a deferred trigger of handlers' rows
                    what = f"the COMMIT of batch {self.info.id}"
                    own.enter_context(watching(self.watch, what))
        return handled

    async def before_transaction(self) -> bool:
        """Do what comes before the transaction of a batch or part; False if there is none."""
        return True

    async def open(self) -> AsyncOpenBatch | None:
        """Open the next batch in the transaction; None if there is none."""
        mark = mark_transaction_call(self.session.role)
        _, self.info = await self.open_next(mark, after=NO_LOCK_TIMEOUT)
        return None if self.info is None else self.make_batch(self.info)

    def make_batch(self, info: Batch, part: list[Event] | None = None) -> AsyncOpenBatch:
        """As in the base class. The batch also calls `confirm` between two events, if in doubt."""
        batch = super().make_batch(info, part)
        if not self.by_event:
            batch.held, batch.confirm = self.held, self.confirm
        return batch

    async def confirm(self, _batch: Batch) -> None:
        """Check the session, unless a statement or COPY of the handler has it."""
        if not self.session.connection.lock.locked():
            await self.check_session()

    def finish_calls(self, batch: AsyncOpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the batch."""
        return [consume.finish_batch(batch.info)]

    async def _process(self) -> bool:
        """Handle and finish the next batch, if there is one; False if `stop` came before."""
        batch = await self.open()
        if batch is None:
            return True
        if not await self.handle(batch):
            return False
        raise_if_cancelled()
        check_open(self.session.connection)
        finish = self.finish_calls(batch)
        results = await self._send_own(*batch.failures.take(), *finish)
        if not all(results[-len(finish) :]):
            raise BatchLost(batch_id=batch.info.id)
        return True

    async def handle(self, batch: AsyncOpenBatch) -> bool:
        """Call the handler for a batch; False if `stop` came before its end."""
        if self.by_event:
            return await self._process_events(batch)
        async with self.session.connection.lent() as lent:
            return await self.handle_batch(batch, lent)

    async def _process_events(self, batch: AsyncOpenBatch) -> bool:
        # Savepoints also find the event that loses the connection.
        savepoints = self._use_savepoints[batch.info.parked] or self.losses.begun
        handle = self._with_savepoint if savepoints else self._without_savepoint
        async with aclosing(batch.fetch()) as lists:
            async for events in lists:
                await self.parking.look_up(batch.info, events, batch.failures.parked_keys)
                with self.pace:
                    for event in events:
                        if self.held.must_check:
                            await self.check_session()
                        if self.stop.is_set:
                            return False
                        if self.parking.parked and self.parking.waits(event):
                            batch.failures.wait_behind(event)
                            continue
                        self.event = event
                        await handle(batch, event)
                if batch.failures.full:
                    await self._send_own(*batch.failures.take())
                elif self.careful.part_size is None and len(events) >= list_size(self.consumer):
                    await self._send_own()  # before the next events are read
        return True

    async def _send_own(self, *wanted: Call[Any]) -> list[Any]:
        """Send calls of our own in the handlers' transaction; reset role and timeouts.

        Raises WrongTransaction if a handler ended the transaction, and LockNotAvailable after a
        while: handlers may wait for locks as long as they like, but a consumer that waits hears no
        `stop`.
        """
        session = self.session
        same = same_transaction_call(session.role, session.lock_timeout, pooled=session.pooled)
        is_same, *results, _ = await self.send(same, *wanted, NO_LOCK_TIMEOUT)
        if not is_same:
            raise transaction_ended()
        return results

    async def _without_savepoint(self, _batch: AsyncOpenBatch, event: Event) -> None:
        connection = self.session.connection
        try:
            async with connection.lent() as lent:
                check_result(await self.process_event(event, lent))
            check_open(connection)
        except HANDLER_ERRORS as error:
            raise_if_cancelled(error)
            if ended(connection):
                raise HandlerFailed(transaction_ended()) from error
            raise HandlerFailed(error, collided=connection.collided(error)) from error

    async def _with_savepoint(self, batch: AsyncOpenBatch, event: Event) -> None:
        error = self.losses.failure_of(event.id)
        if error is None:
            error = await call_handler(self.session, self.process_event, event)
        if error is None:
            return
        if self.wants_stop(error):
            raise HandlerFailed(error)
        batch.failures.judge(event, error)

    async def _after_rollback(self, error: HandlerFailed | psycopg.Error) -> None:
        """Repeat a transaction that was rolled back, wait first, or raise the error."""
        error = await self._blame(error)
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
            await self._pause()
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
            await self.back_off(self.info, cause)

    async def _blame(self, error: HandlerFailed | psycopg.Error) -> HandlerFailed | psycopg.Error:
        """Blame a handler for what COMMIT finds, and for a read-only transaction.

        The latter unless a new one is read only too. Only handlers write rows with constraints that
        are deferred.
        """
        if self.info is not None and isinstance(error, psycopg.IntegrityError):
            return HandlerFailed(error)
        if self.info is None or not isinstance(error, ReadOnlySqlTransaction):
            return error
        failover = await self.session.runner.run(READ_ONLY)
        return error if failover else HandlerFailed(error)

    async def _pause(self) -> None:
        """Wait before a transaction is repeated: longer each time in a row."""
        delay = backoff(self._collisions, base=COLLISION_BASE, maximum=COLLISION_MAX)
        self._collisions += 1
        await self.stop.wait(delay)


class AsyncTransactionalParts(AsyncTransactionalLoop):
    """One transaction a part: the handlers, finish_part or finish_batch, COMMIT."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.open_settings = OPEN_SETTINGS if self.by_event else ()
        self._reader: AsyncPartReader | None = None
        self._events_of_part: list[Event] = []
        self._finished = False  # the part that was read last
        self._position: int | None = None  # at which it was read
        self._beat_at = 0.0  # when the part was finished: waiting.boottime()

    async def run(self) -> None:
        """Work until `stop`; the part at hand is then rolled back unless all of it was handled."""
        try:
            await super().run()
        finally:
            await self._close_reader()

    async def before_transaction(self) -> bool:
        """Read the next part, of the open batch or of the next one; False if there is none."""
        if self._reader is not None and (
            self._reader.last or not self._finished or self._reader.size != self.careful.part_size
        ):
            await self._close_reader()
        if self._reader is None:
            wanted = self._position_call()
            results, info = await self.open_next(after=wanted)
            if info is None:
                return False
            found = None if wanted is None else results[-1]
            self._position = await self._position_of(info, found)
            size = self.careful.part_size or self.consumer.part_size
            self._reader = AsyncPartReader(self.session, info, size)
        self.info = self._reader.info
        self._finished = False
        self._events_of_part = await self._reader.next()
        return await self.ends_confirmed(self.info, self._events_of_part)

    def _position_call(self) -> Call[Any] | None:
        """Return the query of the position, to send together with what opens the batch."""
        consumer = self.consumer
        if consumer.has_workers or not self._expects_batch:  # the batch may be a subconsumer's
            return None
        return consume.position(consumer.queue, consumer.name)

    async def _position_of(self, info: Batch, found: tuple[int, int | None] | None) -> int | None:
        """Return the pos_no of the open batch; ask if `found` is none, or that of another batch."""
        if found is None or found[1] != info.id:
            call = consume.position(info.queue, info.consumer)
            found = await self.session.runner.run(call)
        return None if found is None or found[1] != info.id else found[0]

    async def open(self) -> AsyncOpenBatch | None:
        """Return the part that was read."""
        if self.info is None:
            return None
        mark = mark_transaction_call(self.session.role)
        await self.send(mark, NO_LOCK_TIMEOUT)
        return self.make_batch(self.info, self._events_of_part)

    async def handle(self, batch: AsyncOpenBatch) -> bool:
        """Call the handler for a part, or make its one event dead."""
        return self.give_up(batch, self._events_of_part) or await super().handle(batch)

    def finish_calls(self, batch: AsyncOpenBatch) -> list[Call[bool]]:
        """Return the calls that finish the part, and the batch after its last part."""
        whole = super().finish_calls(batch)
        if not self._events_of_part:
            return whole  # the batch has no event
        up_to = self._events_of_part[-1].id
        self._beat_at = waiting.boottime()
        part = batch.finish_part(up_to, position=self._position)
        return [part, *whole] if self._at_end else [part]

    async def batch_finished(self, *, whole: bool = True) -> None:
        """Count the part. If that widens the parts, the position moves: read the rest anew."""
        self._finished = True
        self.held.part_finished(self._beat_at)
        self._position = None if self._position is None else self._position + 1
        widened = self.careful.widened
        await super().batch_finished(whole=whole and self._at_end)
        if self.careful.widened > widened:
            await self._close_reader()

    @property
    def _at_end(self) -> bool:
        """Whether the part at hand is the last one of its batch."""
        return self._reader is not None and self._reader.last

    async def _close_reader(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()
            self._reader = None


def kind_of_loop(
    consumer: BaseConsumer, session: AsyncSession
) -> type[AsyncPlainLoop | AsyncTransactionalLoop]:
    """Return the class of the loop for the consumer; the extension pgq has no parts."""
    if not consumer.is_transactional:
        return AsyncPlainLoop
    return AsyncTransactionalLoop if session.extension else AsyncTransactionalParts
