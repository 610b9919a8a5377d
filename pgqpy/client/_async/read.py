"""Reading a batch in bounded memory."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase
from pgqpy.client._async.cursor import AsyncBatchCursor

if TYPE_CHECKING:
    from collections import abc

    from pgqpy.records import Batch, Event


class AsyncReading(AsyncBase):
    """Reads batches."""

    async def get_batch_events(
        self, batch: Batch | int, *, fetch_size: int = calls.read.FETCH_SIZE
    ) -> abc.AsyncIterator[Event]:
        """Iterate over the events of a batch, by id, holding `fetch_size` of them at a time.

        A small batch is one SELECT. A large one is read through a cursor: inside a transaction
        PGQ's get_batch_cursor, so read it before the transaction ends; in autocommit a cursor WITH
        HOLD, so that no transaction stays open while the caller works on the events. The cursor is
        closed when the iterator is. Behind a pooler of transactions, read inside one.

        Args:
            batch: the batch or its id.
            fetch_size: events held by the client at a time.

        Raises:
            BatchNotFound: no such batch is open.

        PGQ get_batch_events, get_batch_cursor, pgq-contract 1.4.

            for event in client.get_batch_events(batch):
                print(event.id, event.type, event.json())
        """
        async with aclosing(self.fetch_batch_events(batch, fetch_size)) as fetched:
            async for events in fetched:
                for event in events:
                    yield event

    async def fetch_batch_events(
        self, batch: Batch | int, fetch_size: int
    ) -> abc.AsyncGenerator[list[Event], None]:
        """Iterate over the same events as lists of at most `fetch_size`, for who counts every step.

        Close it if you stop early.
        """
        size = calls.read.fetch_size(fetch_size)
        few = await self._few(batch, size)
        if few is not None:
            yield few
            return
        cursor = AsyncBatchCursor(self._link, calls.batch_id(batch), size)
        try:
            events = await cursor.first()
            while events:
                yield events
                events = await cursor.next()
        finally:
            await cursor.close()

    async def _few(self, batch: Batch | int, size: int) -> list[Event] | None:
        """Return the whole batch if it is small; None if it takes a cursor.

        The ticks' word is a hint. If it promised too few, what was read is thrown away.
        """
        if not calls.read.fits(batch, size):
            return None
        wanted = calls.read.of_batch(calls.batch_id(batch))
        events = await self._link.read(wanted, calls.read.short(size + 1), wanted.params)
        return events if len(events) <= size else None
