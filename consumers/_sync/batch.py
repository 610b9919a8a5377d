"""[Generated from _async/batch.py by tools/unasync.py: edit that file, not this one.] An open batch, or a part of it, as the loops and process_batch read it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from pgqpy.calls import consume
from pgqpy.client.exclusive import ConnectionBusy
from pgqpy.consumers.retry import seconds
from pgqpy.errors import BatchLost
from pgqpy.records import Event

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Awaitable, Callable, Iterable
    from datetime import timedelta

    from pgqpy.calls import Call
    from pgqpy.consumers._sync.careful import Careful
    from pgqpy.consumers._sync.failures import Failures
    from pgqpy.consumers._sync.session import Session
    from pgqpy.consumers.heartbeat import HeldBatch
    from pgqpy.consumers.measures import BatchTrace, InsertTimes
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch


class OpenBatch:
    """An open batch. Iterate over it to read its events, as often as you like.

    The pass that was begun last has to come to its end: else the batch stays unfinished. A batch of
    more than `part_size` events comes in parts, with one `info`, which has the id and the ticks.
    """

    def __init__(
        self,
        session: Session,
        info: Batch,
        failures: Failures,
        list_size: int,
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
        self.held: HeldBatch | None = None  # None: the loop itself checks, event by event
        self.confirm: Callable[[Batch], None]  # set together with `held`
        self._session = session
        self._list_size = list_size
        self._part = part  # the events of the batch that are to be handled now, if not all
        self._parked_ids = [event.id for event in part or () if info.parked]
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

    def __iter__(self) -> Iterator[Event]:
        self._check_open()
        self._begun += 1  # even if no event is read, as by a map() that nobody iterates over
        stream = self._read(self._begun)
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        """Close the streams that are still open, so that the connection is free.

        One from which a task or thread of the handler reads just now goes on: it reads from memory.
        """
        self._closed = True
        for stream in self._streams:
            if not stream.gi_running:
                stream.close()
        self._streams.clear()

    def _check_event(self, method: str, event: object) -> None:
        self._check_open()
        if not isinstance(event, Event):
            raise TypeError(f"{method} takes an event of the batch, not {type(event).__name__}")

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("process_batch has returned: its batch is not open any more")

    def fetch(self) -> Generator[list[Event], None, None]:
        """Read the events as lists of at most `list_size`; between two lists write many failures.

        Close it if you stop early.
        """
        self.size = 0
        if self.inserted is not None:
            self.inserted.clear()
        with closing(self._lists()) as lists:
            for events in lists:
                self.note(events)
                yield events
                if self.failures.full:
                    self.failures.flush()

    def note(self, events: list[Event]) -> None:
        """Note that these events were read."""
        self.size += len(events)
        if self.inserted is not None:
            self.inserted.add(events)
        if self.trace is not None:
            self.trace.note(events)
        if self.info.parked and self._part is None:
            self._parked_ids += [event.id for event in events]

    def finish_part(
        self, up_to: int | None, done: Iterable[int] = (), position: int | None = None
    ) -> Call[bool]:
        """Return the call that finishes the events read up to this id, and those in `done`.

        Parked events are not in the order of their ids: each finished one is named.
        """
        if self.info.parked and up_to is not None:
            done = [*self._parked_ids[: self._parked_ids.index(up_to) + 1], *done]
        return consume.finish_part(self.info, up_to, done, position)

    def _lists(self) -> Generator[list[Event], None, None]:
        if self._part is not None:
            yield self._part
            return
        reader = self._session.runner.fetch_batch_events(self.info, self._list_size)
        with closing(reader) as lists:
            while events := self._session.next_list(lists):
                yield events

    def _confirm_once(self, held: HeldBatch) -> None:
        """Ask, unless another thread or task that reads the batch does: two would hang."""
        if held.asking.acquire(blocking=False):
            try:
                self.confirm(self.info)
            finally:
                held.asking.release()

    def _read(self, number: int) -> Generator[Event, None, None]:
        held = self.held
        with closing(self.fetch()) as lists:
            try:
                for events in lists:
                    for event in events:
                        if held is not None and held.in_doubt:
                            self._confirm_once(held)
                        yield event
                self._ended = max(self._ended, number)
            except ConnectionBusy:
                raise  # the handler passes the batch to insert_events over the same connection
            except Exception as error:
                self.error = error
                raise


class PartReader:
    """Reads parts of about `size` events, outside of transactions. Memory holds two parts.

    The next part is read before the one at hand is handled: its first id tells whether a part may
    end there. An event and its retried copy, which has the same id, stay together.
    """

    def __init__(self, session: Session, info: Batch, size: int) -> None:
        self.info = info
        self.size = size
        self.last = False  # the part that `next` returned is the end of the batch
        self._session = session
        self._lists = session.runner.fetch_batch_events(info, size)
        self._ahead: list[Event] | None = None

    def next(self) -> list[Event]:
        """Return the next part; it is empty only in a batch without events."""
        read, lists = self._session.next_list, self._lists
        events = read(lists) if self._ahead is None else self._ahead
        ahead = read(lists)
        while ahead and ahead[0].id == events[-1].id:
            events += ahead
            ahead = read(lists)
        self._ahead, self.last = ahead, not ahead
        return events

    def close(self) -> None:
        """Close the cursor."""
        self._lists.close()


class ReadPosition:
    """The position of the open batch, as a worker with a lease has moved it.

    A pooler in transaction mode may hide a failover. The worker's connection stays, but the server
    behind it is a standby that lagged. The batch is open on it, but the worker's last writes may be
    missing: a retried event would be lost when the worker finishes the batch. So each transaction
    that writes for a batch, or asks about parked keys, first checks the position. If it is not the
    expected one, the batch is lost, and is read again.
    """

    def __init__(
        self, consumer: BaseConsumer, session: Session, careful: Careful
    ) -> None:
        self.enabled = consumer.lease is not None  # without, a failover ends the session
        self._session = session
        self._careful = careful
        self._base = 0  # pos_no, less the moves that careful.widened counts

    def read(self, batch: Batch) -> None:
        """Note the position of a batch, before its events are read."""
        if self.enabled:
            with self._session.calls.running():
                call = consume.position(batch.queue, batch.consumer)
                found = self._session.runner.run(call)
            if found is None or found[1] != batch.id:
                raise BatchLost(batch_id=batch.id)
            self._base = found[0] - self._careful.widened

    def check(self, batch: Batch) -> tuple[Call[Any], ...]:
        """Return the call that a transaction for this batch begins with."""
        expected = self._base + self._careful.widened  # each widening moved the position
        return (consume.check_position(batch, expected),) if self.enabled else ()

    def moved(self) -> None:
        """Note that finish_part has moved the position."""
        self._base += 1
