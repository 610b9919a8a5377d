"""What a consumer with on_error = "park" knows of its parked keys, and asks the server about them.

A failed event is parked, and so is every later event of its key, unhandled, until those before it
are done. The server keeps them (event_park) and gives them again (take_parked). Parked events are
written together with the end of their part of a batch: else events that were handled before them
would be delivered again, after a crash, behind them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pgqpy.calls import Call, parked
from pgqpy.consumers.handlers import key_text
from pgqpy.consumers.parts import list_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from datetime import timedelta

    from pgqpy.calls import Row
    from pgqpy.consumers._async.lock import AsyncRunningLock
    from pgqpy.consumers._async.session import AsyncSession
    from pgqpy.consumers.settings import BaseConsumer
    from pgqpy.records import Batch, Event

BUSY = 0.1  # seconds


class AsyncParking:
    """The parked keys of a consumer, as far as the events at hand need them."""

    def __init__(
        self,
        consumer: BaseConsumer,
        session: AsyncSession,
        key: Callable[[Event], Hashable] | None,
        lock: AsyncRunningLock,
    ) -> None:
        self._consumer = consumer
        self._lock = lock
        self._session = session
        self.on = consumer.on_error == "park"
        self._key = key
        # The keys, among the events at hand, whose events are parked instead of being handled.
        self.parked: set[str] = set()
        self.exists = False  # whether the consumer has parked events
        self._due_at = 0.0  # by time.monotonic(), if it has
        self._took_last = False  # the batch that was opened last is one of parked events
        self.check: Callable[[Batch], tuple[Call[Any], ...]] = lambda _batch: ()  # of its position

    @property
    def at_ends(self) -> bool:
        """Whether parked events are written only with the end of their part.

        Not in a transactional consumer: one transaction writes them and finishes the part.
        """
        return self.on and not self._consumer.is_transactional

    def key(self, event: Event) -> str | None:
        """Return the text of an event's key; None if it has none. Raises what `key` raises."""
        return key_text(self._key(event)) if self._key else None

    def key_or_none(self, event: Event) -> str | None:
        """Return the key to park an event under; None: it has none, or `key` fails.

        None in an old lane, while the key of the lanes is being changed: two such lanes may have
        events of one new key.
        """
        try:
            return self.key(event) if self.on and not self._lock.one_by_one else None
        except Exception:  # noqa: BLE001  # it is why the event failed
            return None

    def with_key(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler that fails where the application's `key` does."""
        if not (self.on and callable(self._consumer.key)):
            return handler

        async def keyed(event: Event, *more: Any) -> Any:
            self.key(event)
            return await handler(event, *more)

        return keyed

    def waits(self, event: Event) -> bool:
        """Whether an event is to wait behind a failed one of its key."""
        return self.key_or_none(event) in self.parked

    async def look_up(
        self, batch: Batch, events: Iterable[Event], unwritten: set[str], *more: str
    ) -> None:
        """Ask which keys of these events, and which `more`, are parked.

        `unwritten` are keys of events that are to be parked with the end of the part. With lanes
        another process may have parked an event just before this one took the lane.
        """
        if not self.on:
            return
        self.parked.clear()
        self.parked |= unwritten
        if self.exists or batch.parked or self._consumer.lanes is not None:
            keys = {*map(self.key_or_none, events), *more} - {None}
            call = parked.get_parked_keys(batch, [key for key in keys if key is not None])
            *_, found = await self._session.runner.run_all(*self.check(batch), call)
            self.parked |= found

    def poll(self) -> tuple[Call[None], ...]:
        """Return the call that asks when the next parked event is due, if any may be parked."""
        if not self.on:
            return ()
        call = parked.next_parked(self._consumer.queue, self._consumer.name)

        def decode(rows: list[Row]) -> None:
            self._note(call.decode(rows))

        return (Call(call.function, call.sql, call.params, decode, call.error_data),)

    def _note(self, until_due: timedelta | None) -> None:
        self.exists = until_due is not None
        if until_due is not None:
            self._due_at = time.monotonic() + until_due.total_seconds()

    @property
    def seconds(self) -> float:
        """How long until a parked event is due, as far as known."""
        return max(self._due_at - time.monotonic(), 0.0) if self.exists else float("inf")

    @property
    def is_due(self) -> bool:
        """Whether a parked event is due."""
        return self.seconds == 0.0

    @property
    def is_turn(self) -> bool:
        """Whether parked events are to come next: they take turns with ordinary batches."""
        return self.is_due and not self._took_last

    def take(self) -> Call[Batch | None]:
        """Return the call that opens a batch of parked events."""
        return parked.take_parked(self._consumer.queue, self._consumer.name, self.most)

    @property
    def most(self) -> int:
        """The most parked events of a batch."""
        return min(list_size(self._consumer), parked.MOST_TAKEN)

    def opened(self, batch: Batch | None) -> None:
        """Note which batch was opened."""
        self._took_last = batch is not None and batch.parked
        if batch is None and self.is_due:  # in a lane that another process has
            self._due_at = time.monotonic() + BUSY
