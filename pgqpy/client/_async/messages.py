"""The part of the client for receivers: leased messages of a shared consumer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from psycopg import sql
from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client import encodings
from pgqpy.client._async.base import AsyncBase
from pgqpy.errors import BatchLost, BatchNotFound, EventNotFound, InvalidArgument

if TYPE_CHECKING:
    from pgqpy.calls import After, Call, Interval
    from pgqpy.client._async.runner import AsyncCallRunner
    from pgqpy.records import Event, Failure

POLL_INTERVAL = 1.0  # seconds between looks for leases that ended, and for missed notifications
SLICE = 0.05  # seconds; so long a wait keeps other threads or tasks from the connection

IN_TRANSACTION = (
    "receive takes its lease in a transaction of its own: call it outside of transactions, on a "
    "connection in autocommit; done() may be called inside of one"
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
    ) -> list[AsyncMessage]:
        """Lease events to this caller, and return them as messages; an empty list if none came.

        Each message goes to one receiver. Finish it by `done()`, `retry()` or `dead()`, before the
        lease ends; else the next receiver gets it. The first call of a client registers the
        consumer if it is new. The consumer is a shared one from then on.

        Args:
            queue: the queue.
            consumer: its consumer.
            limit: at most so many messages, from 1 to 1,000.
            lease: seconds or a timedelta, 1 second or more; one lease for all these messages.
            wait: for so long a call waits for the first event; 0 returns at once. Meanwhile other
                threads or tasks may use the client; each of their calls waits up to 0.05 s longer.

        Raises QueueNotFound, TooManyLeases, WrongMode for a consumer that is plain, and
        ConsumerNotFound if it was unregistered since the first call.

            for message in client.receive("orders", "billing"):
                print(message.event.json())
                message.done()
        """
        call = calls.messages.receive(queue, consumer, limit, lease)
        end = time.monotonic() + calls.required_interval("wait", wait).total_seconds()
        in_transaction = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
        if not self.connection.autocommit or self.runner.status() in in_transaction:
            raise InvalidArgument(IN_TRANSACTION, function="receive")
        if (queue, consumer) not in self._registered:
            await self.runner.require_pgqpy("receive")
            await self.runner.run(calls.consume.register_consumer(queue, consumer))
            self._registered.add((queue, consumer))
        found = await self.runner.run(call)
        if not found and time.monotonic() < end:
            await self._listen(queue)
            found = await self.runner.run(call)
        while not found and (left := end - time.monotonic()) > 0:
            await self._wait_for_tick(min(left, POLL_INTERVAL))
            found = await self.runner.run(call)
        return [AsyncMessage(self.runner, *each) for each in found]

    async def _listen(self, queue: str) -> None:
        if queue not in self._listens:
            channel = sql.Identifier(f"pgq_{queue}")
            await self.connection.execute(sql.SQL("listen {}").format(channel))
            self._listens.add(queue)

    async def _wait_for_tick(self, seconds: float) -> None:
        """Wait for a notification, in slices: others use the connection in between."""
        seen, end = self._notifications, time.monotonic() + seconds
        while seen == self._notifications and (left := end - time.monotonic()) > 0:
            timeout = min(left, SLICE)
            async for _ in self.connection.notifies(timeout=timeout, stop_after=1):
                self._notifications += 1  # another receiver of this client ends its wait too


class AsyncMessage:
    """An event that `receive` leased.

    Attributes:
        event: the event: `id`, `type`, `data`, `extra1` …, `json()`.
        attempt: 1 the first time; one more for each retry of the event, and for each lease that had
            it and ended.
        batch_id: the id of the lease; messages of one `receive` share it.
    """

    __slots__ = ("_finished", "_runner", "attempt", "batch_id", "event")

    def __init__(self, runner: AsyncCallRunner, batch_id: int, attempt: int, event: Event) -> None:
        self.event = event
        self.attempt = attempt
        self.batch_id = batch_id
        self._runner = runner
        self._finished = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(event={self.event!r}, attempt={self.attempt})"

    async def done(self) -> None:
        """Finish the message: nobody gets it again.

        When it returns, that is committed; inside a transaction of the client, it commits with it.

        Raises BatchLost if another receiver has the message, and EventNotFound if it was finished
        before. A lease that has ended, but that nobody has taken over, does no harm.
        """
        await self._finish()

    async def retry(self, after: After) -> None:
        """Set the message aside; a receiver gets it again when the time has come.

        `after` is seconds or a timedelta from now, or an aware datetime. Raises as `done`.
        """
        pairs = [(self.event, after)]
        await self._finish(calls.consume.event_retry_many(self.batch_id, pairs))

    async def dead(self, reason: str | BaseException | Failure) -> None:
        """Give the message up: keep it as a dead event, with a text or an exception.

        Raises as `done`.
        """
        dead = [(self.event, reason)]
        ascii_only = not encodings.holds_everything(self._runner.connection)
        call = calls.dead_events.event_dead(self.batch_id, dead, ascii_only=ascii_only)
        await self._finish(call)

    async def extend(self, seconds: Interval) -> None:
        """Extend the lease of this message and of those received with it: from now on, so long.

        A lease that ends later than that stays as it is. Raises BatchLost.
        """
        lease = calls.messages.lease_time("seconds", seconds)
        if not await self._runner.run(calls.share.touch_batch(self.batch_id, lease)):
            raise self._lost("touch_batch")

    def _lost(self, function: str) -> BatchLost:
        return BatchLost(batch_id=self.batch_id, event_id=self.event.id, function=function)

    async def _finish(self, before: Call[int] | None = None) -> None:
        if self._finished:
            msg = f"event {self.event.id} was finished before: by done(), retry() or dead()"
            raise EventNotFound(msg, batch_id=self.batch_id, event_id=self.event.id)
        finish = calls.messages.finish_events(self.batch_id, self.event.id, before)
        try:
            finished = await self._runner.run(finish)
        except BatchNotFound:
            finished = False
        if not finished:
            raise self._lost("finish_events")
        self._finished = self._runner.alone()  # else a rollback may undo it
