"""Reading a batch in bounded memory."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections import abc

    from pgqpy.client._async.runner import AsyncCallRunner
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
        closed when the iterator is. Behind a pooler of transactions, read inside one. PGQ
        get_batch_events.

        Raises:
            BatchNotFound: no such batch is open.

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
        """Iterate over the same events as lists of at most `fetch_size`, which is faster.

        Close it if you stop early.
        """
        size = calls.read.fetch_size(fetch_size)
        events = await self._read_small(batch, size)
        if events is not None:
            yield events
            return
        cursor = AsyncBatchCursor(self.runner, calls.batch_id(batch), size)
        try:
            events = await cursor.first()
            while events:
                yield events
                events = await cursor.next()
        finally:
            await cursor.close()

    async def _read_small(self, batch: Batch | int, size: int) -> list[Event] | None:
        """Return the whole batch if it is small; None if it takes a cursor.

        The ticks only estimate the number of events. If there are more, what was read is dropped.
        """
        if not calls.read.fits(batch, size):
            return None
        wanted = calls.read.of_batch(calls.batch_id(batch))
        events = await self.runner.read(wanted, calls.read.select_at_most(size + 1), wanted.params)
        return events if len(events) <= size else None


class AsyncBatchCursor:
    """A server-side cursor that reads a batch `size` events at a time.

    Inside a transaction it is PGQ's cursor and ends with the transaction. In autocommit it is a
    cursor WITH HOLD: the server keeps the rows, and no transaction stays open between two fetches.
    """

    def __init__(self, runner: AsyncCallRunner, batch_id: int, size: int) -> None:
        """Open nothing yet."""
        self._runner = runner
        self._batch_id = batch_id
        self._events = calls.read.of_batch(batch_id)
        self._size = size
        self._name = calls.read.cursor_name(batch_id)
        self._held = runner.alone()
        self._open = False

    async def first(self) -> list[Event]:
        """Open the cursor and return the first events; empty: there are none."""
        batch_id, name = self._batch_id, self._name
        if self._held:
            await self._runner.hold_cursor(batch_id, name)
            self._open = True
            return await self.next()
        query = calls.read.open_cursor()
        events = await self._runner.read(self._events, query, (batch_id, name, self._size))
        self._open = True
        return await self._checked(events)

    async def next(self) -> list[Event]:
        """Return the next events; empty: there are no more."""
        if not self._open:
            return []
        query = calls.read.fetch(self._name, self._size)
        return await self._checked(await self._runner.read(self._events, query, prepare=False))

    async def _checked(self, events: list[Event]) -> list[Event]:
        """Close at the last events, before they are handed out: their handler may roll back."""
        if len(events) < self._size:
            self._open = False
            await self._runner.close_cursor(self._name)
        return events

    async def close(self) -> None:
        """Close the cursor if its reader stopped early."""
        if self._open:
            self._open = False
            await self._runner.abandon_cursor(self._name, held=self._held)
