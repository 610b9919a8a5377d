"""The part of the client for producers: inserting and staging events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.errors import UntranslatableCharacter

from pgqpy import calls
from pgqpy.client import encodings
from pgqpy.client._async.base import AsyncBase
from pgqpy.client._iterables import in_lists_async
from pgqpy.errors import InvalidArgument
from pgqpy.sqlstates import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from psycopg import AsyncCopy

    from pgqpy.calls import Payload
    from pgqpy.client._iterables import AsyncEvents


class AsyncProducing(AsyncBase):
    """Inserts events. Needs the role pgq_writer."""

    async def insert_event(
        self,
        queue: str,
        type: str | None,
        data: Payload,
        extra1: Payload = None,
        extra2: Payload = None,
        extra3: Payload = None,
        extra4: Payload = None,
    ) -> int:
        """Insert one event and return its id. It becomes visible when the transaction commits.

        `type` is the kind of event, in the application's words. `data` is str, UTF-8 bytes, None,
        or anything JSON can hold, which is stored as JSON: dates, Decimal, UUID, enums,
        dataclasses, models and mappings too. The extras are like data. PGQ insert_event.

        Raises:
            InvalidEvent: a field cannot be stored; nothing was sent.
            QueueNotFound, InsertDisabled, TransactionLimitExceeded: the queue refused.

            await client.insert_event("orders", "paid", {"order": 17, "amount": "12.50"})
        """
        columns = (queue, type, data, extra1, extra2, extra3, extra4)
        limit, default = self._payload_limit, self._json_default
        return await self.runner.run(
            calls.produce.insert_event(*columns, limit=limit, default=default)
        )

    async def insert_events(self, queue: str, events: AsyncEvents) -> int:
        """Insert any number of events and return how many. All or none, in bounded memory, by COPY.

        Each event is (type, data[, extra1..4]), a dict with these keys, or an object with these
        attributes, such as an Event. Up to 32 events are read before the first of them is checked.
        COPY ignores the queue's `per_tx_limit`: bound the iterable where that matters. The SQL
        function insert_events, which returns ids, is not called.

        Raises:
            InvalidEvent: an event cannot be stored; `.index` says which, from 0. Nothing was
                inserted, and a transaction of the application goes on.
            QueueNotFound, InsertDisabled: the queue refused.

        What the iterable itself raises is passed on; nothing was inserted.

            await client.insert_events("orders", (("paid", row) for row in rows))
        """
        if not self.runner.alone():
            # This statement begins the application's transaction if none is open, so that
            # transaction() below is a savepoint and never commits.
            await self.runner.run(calls.produce.transaction_id())
        async with self.connection.transaction():
            return await self._copy(queue, events)

    async def _copy(self, queue: str, events: AsyncEvents) -> int:
        table = await self.runner.run(calls.produce.table_to_load(queue))
        statement = calls.bulk.copy_into(table)
        raised: list[Exception] = []  # by the iterable: it may talk to a database too
        load = encodings.LoadCheck(self.connection)
        try:
            with translated("current_event_table", {"queue": queue}, ignored=raised):
                async with self.runner.cursor() as cursor, cursor.copy(statement) as copy:
                    return await self._write(copy, in_lists_async(events, raised), load)
        except UntranslatableCharacter as exc:
            if any(exc is each for each in raised):
                raise
            raise load.error(queue) from exc

    async def _write(
        self, copy: AsyncCopy, events: AsyncIterator[list[object]], load: encodings.LoadCheck
    ) -> int:
        count = 0
        buffer = bytearray()
        async for some in events:
            limit, default = self._payload_limit, self._json_default
            for lines in calls.bulk.lines(some, count, limit, default):
                if load.needed:
                    load.check(lines)
                buffer += lines
                if len(buffer) >= calls.bulk.BUFFER:
                    await copy.write(bytes(buffer))
                    buffer.clear()
            count += len(some)
        if buffer:
            await copy.write(bytes(buffer))
        return count

    async def open_stage(self, queue: str, writer: str, epoch: int | None = None) -> int | None:
        """Make this transaction a stage; return the stage's id. None: the epoch is committed.

        For parallel tasks that may be repeated. Consumers get none of the events that a task's
        transaction inserts into the queue before `commit_stage` names its stage.

        `writer` is the name of the writer, such as a Spark query's id. `epoch` is the number of
        what it writes now, greater each time; None: all, and never again.

        Raises:
            InvalidArgument: no transaction is open, or it is a stage of something else.
            QueueNotFound, InsertDisabled: the queue refused.
        """
        if self.runner.alone():
            raise InvalidArgument("no transaction to stage: call it in `with client.transaction()`")
        return await self.runner.run(calls.produce.open_stage(queue, writer, epoch))

    async def commit_stage(
        self,
        queue: str,
        writer: str,
        epoch: int | None,
        stages: Iterable[int],
        events: int,
        fingerprint: int | None = None,
    ) -> int:
        """Release the events of these stages, all in one batch: 1. 0: it was done before.

        `stages` are the ids that `open_stage` returned, for the same writer and epoch, to the tasks
        whose transactions committed; `events` is the number of events that they inserted.
        `fingerprint` is a hash of the events that does not depend on their order, 64 bits with a
        sign: an epoch that is repeated must have the same. None: nothing is compared.

        Raises:
            InvalidArgument: a stage is named twice.
            StageLost: not all of these stages wait any more; nothing was released.
            EpochChanged: a fingerprint is given, and the epoch was committed with another one, or
                a later epoch was committed; nothing was released.
            QueueNotFound, InsertDisabled, TransactionLimitExceeded: the queue refused.
        """
        return await self.runner.run(
            calls.produce.commit_stage(queue, writer, epoch, stages, events, fingerprint)
        )

    async def drop_stage(self, queue: str, writer: str) -> int:
        """Drop the stages of a writer that were not released; return how many."""
        return await self.runner.run(calls.produce.drop_stage(queue, writer))
