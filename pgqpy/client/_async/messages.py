"""The part of the client for receivers: leased messages of a shared consumer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from psycopg.pq import TransactionStatus

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase
from pgqpy.client.listening import woken_by_ticks
from pgqpy.client.waiting import AsyncBell
from pgqpy.errors import BatchLost, InvalidArgument, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pgqpy.calls import After, Call, Interval
    from pgqpy.client._async.finisher import AsyncFinisher
    from pgqpy.records import Event, Failure

    Leased = tuple[int, int, Event]

POLL_INTERVAL = 1.0  # seconds between polls for leases that ended, and for missed notifications

IN_TRANSACTION_STATES = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
IN_TRANSACTION = (
    "receive takes its lease in a transaction of its own: call it outside of transactions and "
    "pipelines, on a connection in autocommit; done() may be called inside of them"
)
LOST = (
    "{lost} of {all} messages were taken over by other receivers when their lease ended, events "
    "{ids}: undo the work on these; the others are done"
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
                threads or tasks may use the client. All calls that wait in this process share one
                more connection to the database, which tells them of ticks.

        Raises QueueNotFound, WrongMode for a consumer that is plain, ConsumerNotFound if it was
        unregistered since the first call, and PgqError (PQ022) if 1,000 leases are open.

            for message in client.receive("orders", "billing"):
                print(message.event.json())
                message.done()
        """
        call = calls.messages.receive(queue, consumer, limit, lease)
        end = time.monotonic() + calls.required_interval("wait", wait).total_seconds()
        async with self.runner.exclusive:
            if not self.connection.autocommit or self._occupied():
                raise InvalidArgument(IN_TRANSACTION, function="receive")
            if (queue, consumer) not in self._registered:
                await self.runner.require_pgqpy("receive")
                await self.runner.run(calls.consume.register_consumer(queue, consumer))
                self._registered.add((queue, consumer))
        found = await self._lease(call)
        if not found and time.monotonic() < end:
            bell = AsyncBell()
            with woken_by_ticks(self.connection, queue, bell.ring):
                while not found and (left := end - time.monotonic()) > 0:
                    await bell.wait(min(left, POLL_INTERVAL))
                    found = await self._lease(call)
        return [AsyncMessage(self._finisher, *each) for each in found]

    def _occupied(self) -> bool:
        """Whether a transaction or a pipeline of the application is open."""
        return self.runner.in_pipeline() or self.runner.status() in IN_TRANSACTION_STATES

    async def _lease(self, call: Call[list[Leased]]) -> list[Leased]:
        """Lease what there is, but nothing in a transaction that another thread or task opened."""
        async with self.runner.exclusive:
            if self._occupied():
                return []
            return await self.runner.run(call)

    async def done(self, messages: Iterable[AsyncMessage]) -> None:
        """Finish several messages in one round trip: each as its own `done()` does.

        Raises BatchLost, with `.event_ids`, if other receivers have some of them: the others are
        done. Raises NotFound if one was finished before: call their own `done()` then.
        """
        wanted = list(dict.fromkeys(messages))  # each once
        for message in wanted:
            message._check_open()  # noqa: SLF001  # of our own class
        alone = not self.runner.in_transaction()
        errors = await self._finisher.finish([(each.batch_id, each.event.id) for each in wanted])
        failed = []
        for message, error in zip(wanted, errors, strict=True):
            message._finished = error is None and alone  # noqa: SLF001  # as above
            if error is not None:
                failed.append(error)
        lost = [error for error in failed if isinstance(error, BatchLost)]
        if len(lost) < len(failed):
            raise next(error for error in failed if error not in lost)
        if lost:
            ids = [error.event_id for error in lost]
            text = LOST.format(lost=len(lost), all=len(wanted), ids=", ".join(map(str, ids)))
            raise BatchLost(text, **{**vars(lost[0]), "event_ids": ids})


class AsyncMessage:
    """An event that `receive` leased.

    Attributes:
        event: the event: `id`, `type`, `data`, `extra1` …, `json()`.
        attempt: 1 the first time; one more for each retry of the event, and since then for each
            lease that had it and ended, and each worker that died while it handled nothing else.
        batch_id: the id of the lease; messages of one `receive` share it.
    """

    __slots__ = ("_finished", "_finisher", "_runner", "attempt", "batch_id", "event")

    def __init__(self, finisher: AsyncFinisher, batch_id: int, attempt: int, event: Event) -> None:
        self.event = event
        self.attempt = attempt
        self.batch_id = batch_id
        self._finisher = finisher
        self._runner = finisher.runner
        self._finished = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(event={self.event!r}, attempt={self.attempt})"

    async def done(self) -> None:
        """Finish the message: nobody gets it again.

        When it returns, that is committed; inside a transaction of the client, it commits with it.
        Calls of several threads or tasks share round trips and commits.

        Raises BatchLost if another receiver has the message, and NotFound if it was finished
        before. A lease that has ended, but that nobody has taken over, does no harm.
        """
        self._check_open()
        alone = not self._runner.in_transaction()  # else a rollback may undo it
        (error,) = await self._finisher.finish([(self.batch_id, self.event.id)])
        if error is not None:
            raise error
        self._finished = alone

    async def retry(self, after: After) -> None:
        """Set the message aside; a receiver gets it again when the time has come.

        `after` is seconds or a timedelta from now, or an aware datetime. Raises as `done`.
        """
        pairs = [(self.event, after)]
        await self._finish_after(calls.consume.event_retry_many(self.batch_id, pairs))

    async def dead(self, reason: str | BaseException | Failure) -> None:
        """Give the message up: keep it as a dead event, with a text or an exception.

        Raises as `done`.
        """
        dead = [(self.event, reason)]
        await self._finish_after(calls.dead_events.event_dead(self.batch_id, dead))

    async def extend(self, seconds: Interval) -> None:
        """Let the lease of this message, and of those received with it, end so long from now.

        A lease that ends later stays as it is. Raises BatchLost.
        """
        lease = calls.messages.lease_time("seconds", seconds)
        if not await self._runner.run(calls.share.touch_batch(self.batch_id, lease)):
            raise self._lost("touch_batch")

    def _lost(self, function: str) -> BatchLost:
        return BatchLost(batch_id=self.batch_id, event_id=self.event.id, function=function)

    def _check_open(self) -> None:
        if self._finished:
            msg = f"event {self.event.id} was finished before: by done(), retry() or dead()"
            raise NotFound(msg, batch_id=self.batch_id, event_id=self.event.id, sqlstate="PQ004")

    async def _finish_after(self, before: Call[int]) -> None:
        self._check_open()
        finish = calls.messages.finish_events(self.batch_id, self.event.id, before)
        alone = not self._runner.in_transaction()
        try:
            finished = await self._runner.run(finish)
        except BatchLost:
            finished = False
        if not finished:
            raise self._lost("finish_events")
        self._finished = alone
