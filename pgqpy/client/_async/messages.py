"""The part of the client for receivers: claimed messages of a shared consumer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase
from pgqpy.client._async.receiver import AsyncReceiver
from pgqpy.client.listening import woken_by_ticks
from pgqpy.client.waiting import AsyncBell
from pgqpy.errors import InvalidArgument, LeaseLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pgqpy.calls import After, Call, Interval
    from pgqpy.calls.inflight import Claimed, Key
    from pgqpy.client._async.runner import AsyncCallRunner
    from pgqpy.records import Event, Failure

POLL_INTERVAL = 1.0  # seconds between polls for leases that ended, and for missed notifications

IN_TRANSACTION_STATES = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
IN_TRANSACTION = (
    "events are claimed in a transaction of their own: call this outside of transactions and "
    "pipelines, on a connection in autocommit; done() may be called inside of them"
)


class AsyncReceiving(AsyncBase):
    """Receives messages. Needs the role pgq_reader."""

    async def receive(
        self,
        queue: str,
        consumer: str,
        *,
        limit: int = 10,
        lease: Interval = 30,
        wait: Interval = 20,
        key: Key | None = None,
    ) -> list[AsyncMessage]:
        """Claim events, and return them as messages; an empty list if none came.

        Each message goes to one receiver. End it by `done()`, `retry()` or `dead()`, before the
        lease ends; else the next receiver gets it. The first call of a client registers the
        consumer if it is new, and makes it a shared one.

        Args:
            queue: the queue.
            consumer: its consumer.
            limit: at most so many messages, from 1 to 10,000.
            lease: seconds or a timedelta, a second to a day; one lease for all these messages.
            wait: for so long a call waits for the first event; 0 returns at once. Meanwhile other
                threads or tasks may use the client. All calls that wait in this process share one
                more connection to the database, which tells them of ticks.
            key: "type", or "extra1" to "extra4": events with the same value there are handled in
                their order, by one receiver at a time. All receivers name the same. None: no order.

        Raises QueueNotFound, WrongMode for a plain consumer or one that has another key, and
        ConsumerNotFound if it was unregistered since the first call.

            for message in client.receive("orders", "billing"):
                print(message.event.json())
                message.done()
        """
        claim = calls.inflight.receive(queue, consumer, limit, lease)
        seconds = calls.required_interval("wait", wait).total_seconds()
        await self._begin_receiving(queue, consumer, key)
        found = await self._claim_when_there(queue, lambda: self._claim(claim), seconds)
        return [AsyncMessage(self.runner, queue, consumer, *each) for each in found]

    def receiver(
        self,
        queue: str,
        consumer: str,
        *,
        key: Key | None = None,
        limit: int = 1,
        lease: Interval = 30,
    ) -> AsyncReceiver:
        """Return a loop over events, which ends and claims them in the same round trips.

        The arguments are those of `receive`. With a larger `limit` a round trip claims more; the
        lease of those that wait for their turn is extended between events.

            with client.receiver("mails", "sender") as r:
                for event in r:
                    send(event.json())
                    r.done(event)
        """
        return AsyncReceiver(self, queue, consumer, key, limit, lease)

    async def done(self, messages: Iterable[AsyncMessage]) -> None:
        """End several messages in one round trip: each as its own `done()` does.

        Raises LeaseLost, with `.event_ids`, if other receivers may have some of them: the others
        are done.
        """
        events: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for each in messages:
            events.setdefault(each.consumer, []).append((each.token, each.event.id))
        if events:
            wanted = [calls.inflight.done(*names, each) for names, each in events.items()]
            lost = [each for ids in await self.runner.run_all(*wanted) for each in ids]
            if lost:
                raise LeaseLost(event_ids=lost, function="done")

    async def _begin_receiving(self, queue: str, consumer: str, key: Key | None) -> None:
        """Register the consumer, if this client has not done so with this key."""
        async with self.runner.exclusive:
            if not self.connection.autocommit or self._is_occupied():
                raise InvalidArgument(IN_TRANSACTION, function="receive")
            if (queue, consumer, key) not in self._registered:
                call = calls.inflight.register_shared_consumer(queue, consumer, key)
                await self.runner.run(call)
                self._registered.add((queue, consumer, key))

    async def _claim(self, call: Call[Claimed]) -> Claimed | None:
        """Claim what is there; None in a transaction that another thread or task opened."""
        async with self.runner.exclusive:
            if self._is_occupied():
                return None
            return await self.runner.run(call)

    def _is_occupied(self) -> bool:
        """Whether a transaction or a pipeline of the application is open."""
        return self.runner.in_pipeline() or self.runner.status() in IN_TRANSACTION_STATES

    async def _claim_when_there(
        self, queue: str, claim: Callable[[], Awaitable[Any]], seconds: float
    ) -> Claimed:
        """Claim events, and wait for the first of them for some seconds."""
        end = time.monotonic() + seconds
        found: Claimed | None = await claim()
        if not found and time.monotonic() < end:
            bell = AsyncBell()
            with woken_by_ticks(self.connection, queue, bell.ring):
                while not found and (left := end - time.monotonic()) > 0:
                    await bell.wait(min(left, POLL_INTERVAL))
                    found = await claim()
        return found or []


class AsyncMessage:
    """An event that `receive` claimed.

    Attributes:
        event: the event: `id`, `type`, `data`, `extra1` …, `json()`.
        attempt: 1 the first time; one more for each retry, and each lease that ended.
        token: the claim; messages of one `receive` share it.
        consumer: the names of the queue and the consumer.
    """

    __slots__ = ("_runner", "attempt", "consumer", "event", "token")

    def __init__(
        self,
        runner: AsyncCallRunner,
        queue: str,
        consumer: str,
        token: int,
        attempt: int,
        event: Event,
    ) -> None:
        self.event = event
        self.attempt = attempt
        self.token = token
        self.consumer = (queue, consumer)
        self._runner = runner

    def __repr__(self) -> str:
        return f"{type(self).__name__}(event={self.event!r}, attempt={self.attempt})"

    async def done(self) -> None:
        """End the message: nobody gets it again.

        When it returns, that is committed; inside a transaction of the client, it commits with it.

        Raises LeaseLost if another receiver may have the message, or if it was ended before. A
        lease that has ended, but that nobody has taken over, does no harm.
        """
        call = calls.inflight.done(*self.consumer, [(self.token, self.event.id)])
        self._check_lease(not await self._runner.run(call))

    async def retry(self, after: After, *, keep_key: bool = True) -> None:
        """Return the message; a receiver gets it again when the time has come.

        `after` is seconds or a timedelta from now, or an aware datetime. Later events of its key
        wait for it, also those that this receiver has, unless `keep_key` is false. Raises as
        `done`.
        """
        event = (self.token, [self.event.id])
        call = calls.inflight.retry(*self.consumer, *event, after, keep_key=keep_key)
        self._check_lease(await self._runner.run(call))

    async def dead(self, reason: str | BaseException | Failure) -> None:
        """Give the message up: keep it as a dead event, with a text or an exception.

        Raises as `done`.
        """
        call = calls.inflight.dead(*self.consumer, self.token, [self.event.id], reason)
        self._check_lease(await self._runner.run(call))

    async def release(self) -> None:
        """Return the message, which was not begun: another receiver gets it at once.

        This claim does not count as an attempt; after a failure, `retry(0)` does. Raises as `done`.
        """
        call = calls.inflight.release(*self.consumer, self.token, [self.event.id])
        self._check_lease(await self._runner.run(call))

    async def extend(self, seconds: Interval) -> None:
        """Let the lease of this message, and of those received with it, end so long from now.

        Raises LeaseLost.
        """
        call = calls.inflight.extend(*self.consumer, self.token, seconds)
        self._check_lease(await self._runner.run(call))

    def _check_lease(self, held: int) -> None:
        if not held:
            queue, consumer = self.consumer
            raise LeaseLost(queue=queue, consumer=consumer, event_ids=[self.event.id])
