"""The calls of a shared consumer's handlers, as its threads or tasks make them."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pgqpy.calls import inflight
from pgqpy.calls.transaction import (
    NO_LOCK_TIMEOUT,
    is_same_call,
    mark_call,
)
from pgqpy.consumers._async.claimed_list import AsyncClaimedList
from pgqpy.consumers._async.event_handler import event_handler
from pgqpy.consumers._async.handler_connection import check_open
from pgqpy.consumers._async.session import LOCK_TIMEOUT, AsyncSession
from pgqpy.consumers.connections import MOST_LOSSES, is_collision, is_loss, transaction_ended
from pgqpy.consumers.handlers import HANDLER_ERRORS, check_result
from pgqpy.consumers.measures import measuring_batch, tracing_event
from pgqpy.consumers.own_task import raise_if_cancelled
from pgqpy.consumers.retry import backoff
from pgqpy.consumers.settings import handler_name, handler_of
from pgqpy.errors import LeaseLost
from pgqpy.texts import describe

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pgqpy.calls import Call
    from pgqpy.consumers.handler_watch import HandlerWatch
    from pgqpy.consumers.in_hand import Work
    from pgqpy.consumers.measures import BatchTrace
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.consumers.waiting import AsyncWakeup

logger = logging.getLogger("pgqpy.consumers")

UNREAD_LIST = (
    "process_batch returned without having read the whole list: its other events would be lost. "
    "If it reads several times, the pass begun last has to come to its end; or call batch.retry"
)
PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds before a transaction is repeated


class ClaimLost(LeaseLost):
    """The lease of events had ended when their handler was to begin, or had returned."""


class NotHandled(Exception):
    """The handler was not called, because the process stops."""


class AsyncHandlers:
    """Calls the handler of a consumer. It does not know the loop that claims."""

    def __init__(self, consumer: BaseConsumer, watch: HandlerWatch | None) -> None:
        """Take the consumer, and the watch that ends the process if a handler hangs."""
        self._consumer = consumer
        self._watch = watch
        self._by_event = handler_name(consumer) == "process_event"
        if self._by_event:
            self._process_event = event_handler(consumer, None)

    async def handle(self, work: Work, holds: Callable[[int], bool]) -> AsyncClaimedList | None:
        """Call the handler; return the list that process_batch got, None for process_event.

        `holds` says whether the lease of a holder goes on. Raises ClaimLost if it does not.
        """
        if not holds(work.holder):
            raise lost(work, self._consumer)
        return await self._call(work)

    def files(self) -> list[int]:
        """Return the descriptors that a forked child must not use."""
        return []

    def close(self) -> None:
        """Close what handlers used."""

    async def _call(self, work: Work, *more: Any) -> AsyncClaimedList | None:
        if self._by_event:
            await self._call_with_event(work, *more)
            return None
        return await self._call_with_list(work, *more)

    async def _call_with_event(self, work: Work, *more: Any) -> None:
        (event,) = work.events
        with self._watching(work):
            if self._consumer.counts().tracing is None:
                check_result(await self._process_event(event, *more))
                return
            batch = AsyncClaimedList(work, self._consumer.name)
            batch.trace = self._trace(batch)
            with tracing_event(batch, event):
                check_result(await self._process_event(event, *more))

    async def _call_with_list(self, work: Work, *more: Any) -> AsyncClaimedList:
        batch, counts = AsyncClaimedList(work, self._consumer.name), self._consumer.counts()
        batch.trace = self._trace(batch)
        if batch.trace is not None:
            batch.trace.note(work.events)
        with self._watching(work), measuring_batch(counts, batch):
            check_result(await handler_of(self._consumer)(batch, *more))
        if batch.unread:
            raise RuntimeError(UNREAD_LIST)
        return batch

    def _watching(self, work: Work) -> AbstractContextManager[None]:
        """Return a block in which the watch looks at the handler, and names its events."""
        if self._watch is None:
            return nullcontext()
        return self._watch.handling(f"the handler of {work}")

    def _trace(self, batch: AsyncClaimedList) -> BatchTrace | None:
        tracing = self._consumer.counts().tracing
        return None if tracing is None else tracing.opened(batch.info)


class AsyncTransactionalHandlers(AsyncHandlers):
    """Calls each handler in a transaction of its own, which ends the events: exactly once (G9).

    Each handler that runs has a connection. If the lease was lost meanwhile, others may have the
    events: the transaction is rolled back.

    Failures outside of the handler say nothing about the event: no connection, a lost one, a lock
    that our own calls wait for, a collision. Then the transaction is repeated.
    """

    def __init__(
        self, consumer: BaseConsumer, watch: HandlerWatch | None, dsn: str, stop: AsyncWakeup
    ) -> None:
        """Take also where to connect, and what ends the wait for a connection."""
        super().__init__(consumer, watch)
        self._dsn = dsn
        self._stop = stop
        self._free: list[AsyncSession] = []
        self._all: list[AsyncSession] = []

    async def handle(self, work: Work, holds: Callable[[int], bool]) -> AsyncClaimedList | None:
        """Call the handler and end its events, in one transaction.

        `holds` says whether the lease of a holder goes on. Raises ClaimLost if it does not, and
        NotHandled if `stop` came while there was no connection.
        """
        attempt = losses = 0  # `losses` are of the connection, in the handler
        while True:
            if not holds(work.holder):
                raise lost(work, self._consumer)
            if self._stop.is_set and attempt:
                raise NotHandled
            call = HandlerCall()
            try:
                return await self._in_session(work, call)
            except HANDLER_ERRORS as error:
                raise_if_cancelled(error)
                losses += call.lost_in_handler
                if not call.may_repeat(error) or losses >= MOST_LOSSES:
                    raise
                logger.debug("%s is handled again: %s", work, describe(error))
            await self._stop.wait(backoff(min(attempt, 5), base=PAUSE, maximum=LONGEST_PAUSE))
            attempt += 1

    def files(self) -> list[int]:
        """Return the descriptors that a forked child must not use."""
        return [each.connection.fileno() for each in self._all if not each.lost]

    def close(self) -> None:
        """Close the connections, also those that a handler uses."""
        for session in self._all:
            session.close()

    async def _in_session(self, work: Work, call: HandlerCall) -> AsyncClaimedList | None:
        session = self._free.pop() if self._free else await self._open()
        try:
            return await self._in_transaction(session, work, call)
        except HANDLER_ERRORS as error:
            call.collided = session.connection.collided(error)
            call.lost_in_handler = call.in_handler and session.lost
            raise
        finally:
            if session.lost:
                self._all.remove(session)
            else:
                self._free.append(session)

    async def _open(self) -> AsyncSession:
        name = f"pgqpy handler of {self._consumer.name}"
        kind: type[AsyncSession] = self._consumer.session_kind
        session = await kind.open(self._dsn, name, LOCK_TIMEOUT, any_session=True)
        self._all.append(session)
        await session.restore_settings()
        return session

    async def _in_transaction(
        self, session: AsyncSession, work: Work, call: HandlerCall
    ) -> AsyncClaimedList | None:
        connection = session.connection
        async with connection.transaction():
            await session.runner.run_all(mark_call(session.role), NO_LOCK_TIMEOUT)
            call.in_handler = True
            async with connection.lent() as lent:
                batch = await self._call(work, lent)
            check_open(connection)
            call.in_handler = False
            same = is_same_call(session.role, session.lock_timeout, pooled=session.pooled)
            keep_key = self._consumer.on_error == "park"
            wanted = end_calls(work, self._consumer.name, batch, keep_key=keep_key)
            is_same, *ended = await session.runner.run_all(same, *wanted)
            if not is_same:
                raise transaction_ended()
            if sum(ended) < len(work.events):
                raise lost(work, self._consumer)
        return batch


@dataclass
class HandlerCall:
    """How far a transaction of a handler got, for its error."""

    in_handler: bool = False
    collided: bool = False
    lost_in_handler: bool = False

    def may_repeat(self, error: BaseException) -> bool:
        """Whether the handler did not cause the error."""
        if self.in_handler:
            return self.collided or self.lost_in_handler
        return is_loss(error) or is_collision(error)


def lost(work: Work, consumer: BaseConsumer) -> ClaimLost:
    """Return the error for work whose lease has ended."""
    return ClaimLost(queue=work.queue, consumer=consumer.name, event_ids=work.ids)


def end_calls(
    work: Work, consumer: str, batch: AsyncClaimedList | None, *, keep_key: bool
) -> list[Call[int]]:
    """Return the calls that end the events of handled work; each returns how many it ended."""
    place = (work.queue, consumer, work.token)
    retries = {} if batch is None else batch.retries
    deaths = {} if batch is None else batch.deaths
    done = [event for event in work.ids if event not in retries and event not in deaths]
    return [
        *([inflight.done_of(*place, done)] if done else []),
        *(inflight.dead(*place, [event], why) for event, why in deaths.items()),
        *(  # the last first: with keep_key, a retry also returns the later events of its key
            inflight.retry(*place, [event], retries[event], keep_key=keep_key)
            for event in reversed(work.ids)
            if event in retries and event not in deaths
        ),
    ]
