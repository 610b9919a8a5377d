"""An open batch, or a part of it, as the loops and process_batch read it."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pgqpy.client.exclusive import ConnectionBusy
from pgqpy.consumers.parts import LARGEST_LIST
from pgqpy.consumers.retry import seconds
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from datetime import timedelta

    from pgqpy.consumers._async.failures import AsyncFailures
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.histograms import InsertTimes
    from pgqpy.consumers.measures import BatchTrace
    from pgqpy.records import Batch


class AsyncOpenBatch:
    """An open batch. Iterate over it to read its events, as often as you like.

    The pass that was begun last has to come to its end: else the batch stays unfinished. A batch of
    more than `part_size` events comes in parts, with one `info`, which has the id and the ticks.
    """

    def __init__(
        self,
        session: AsyncSession,
        info: Batch,
        failures: AsyncFailures,
        part: list[Event] | None = None,
    ) -> None:
        self.info = info
        self.failures = failures
        self.size = 0  # events that were read, in the last pass
        self._begun = 0  # passes of the handler
        self._ended = 0  # the number of the last pass that came to its end
        self._closed = False
        self.error: Exception | None = None  # of ours, while reading; never a handler's
        self.inserted: InsertTimes | None = None  # if they are wanted
        self.trace: BatchTrace | None = None  # if the consumer is traced
        self._session = session
        self._part = part  # the events of the batch that are to be handled now, if not all
        self._streams: list[Any] = []  # generators, whose states typing does not know

    @property
    def unread(self) -> bool:
        """Whether the pass that the handler began last stopped before the last event.

        Earlier passes may have stopped anywhere.
        """
        return self._ended != self._begun

    def retry(self, event: Event, after: float | timedelta) -> None:
        """Put this event of the batch into the retry queue, for some seconds or a timedelta."""
        self._check_event("retry", event)
        self.failures.retry(event, seconds(after))

    def dead(self, event: Event, reason: str | BaseException) -> None:
        """Give up this event of the batch: keep it as a dead event, with a text or an exception."""
        self._check_event("dead", event)
        self.failures.dead(event, reason)

    def __aiter__(self) -> AsyncIterator[Event]:
        self._check_open()
        self._begun += 1  # even if no event is read, as by a map() that nobody iterates over
        stream = self._read(self._begun)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        """Close the streams that are still open, so that the connection is free.

        One from which a task or thread of the handler reads just now goes on: it reads from memory.
        """
        self._closed = True
        for stream in self._streams:
            if not stream.ag_running:
                await stream.aclose()
        self._streams.clear()

    def _check_event(self, method: str, event: object) -> None:
        self._check_open()
        if not isinstance(event, Event):
            raise TypeError(f"{method} takes an event of the batch, not {type(event).__name__}")

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("process_batch has returned: its batch is not open any more")

    async def fetch(self) -> AsyncGenerator[list[Event], None]:
        """Read the events as lists of at most LARGEST_LIST; between two lists write many failures.

        Close it if you stop early.
        """
        self.size = 0
        if self.inserted is not None:
            self.inserted.clear()
        async with aclosing(self._lists()) as lists:
            async for events in lists:
                self.note(events)
                yield events
                if self.failures.full:
                    await self.failures.flush()

    def note(self, events: list[Event]) -> None:
        """Note that these events were read."""
        self.size += len(events)
        if self.inserted is not None:
            self.inserted.add(events)
        if self.trace is not None:
            self.trace.note(events)

    async def _lists(self) -> AsyncGenerator[list[Event], None]:
        if self._part is not None:
            yield self._part
            return
        reader = self._session.runner.fetch_batch_events(self.info, LARGEST_LIST)
        async with aclosing(reader) as lists:
            while events := await self._session.next_list(lists):
                yield events

    async def _read(self, number: int) -> AsyncGenerator[Event, None]:
        calls, connection = self._session.calls, self._session.connection
        async with aclosing(self.fetch()) as lists:
            try:
                async for events in lists:
                    for event in events:
                        # Not while a statement or COPY of the handler has the connection.
                        if calls.may_have_ended and not connection.lock.locked():
                            await self._session.check_session()
                        yield event
                self._ended = max(self._ended, number)
            except ConnectionBusy:
                raise  # the handler passes the batch to insert_events over the same connection
            except Exception as error:
                self.error = error
                raise


class AsyncPartReader:
    """Reads parts of about `size` events, outside of transactions. Memory holds two parts.

    The next part is read before the one at hand is handled: its first id tells whether a part may
    end there. An event and its retried copy, which has the same id, stay together.
    """

    def __init__(self, session: AsyncSession, info: Batch, size: int) -> None:
        self.info = info
        self.size = size
        self.last = False  # the part that `next` returned is the end of the batch
        self._session = session
        self._lists = session.runner.fetch_batch_events(info, size)
        self._ahead: list[Event] | None = None

    async def next(self) -> list[Event]:
        """Return the next part; it is empty only in a batch without events."""
        read, lists = self._session.next_list, self._lists
        events = await read(lists) if self._ahead is None else self._ahead
        ahead = await read(lists)
        while ahead and ahead[0].id == events[-1].id:
            events += ahead
            ahead = await read(lists)
        self._ahead, self.last = ahead, not ahead
        return events

    async def aclose(self) -> None:
        """Close the cursor."""
        await self._lists.aclose()
