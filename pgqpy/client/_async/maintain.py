"""The part of the client for tickers: ticks, retries, maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from datetime import datetime

    from pgqpy.records import MaintOperation, Tick


class AsyncMaintaining(AsyncBase):
    """Ticks, retries and rotates. Needs the role pgq_ticker or pgq_admin."""

    @overload
    async def ticker(self) -> int: ...
    @overload
    async def ticker(self, queue: str) -> int | None: ...
    @overload
    async def ticker(self, queue: str, tick: int, time: datetime, event_seq: int) -> int: ...

    async def ticker(
        self,
        queue: str | None = None,
        tick: int | None = None,
        time: datetime | None = None,
        event_seq: int | None = None,
    ) -> int | None:
        """Tick the queues that are due by their settings, and return their number. PGQ ticker.

        With a queue, tick only this one; return its new tick's id, or None. With `tick`, `time`
        (an aware datetime) and `event_seq`, its last event id, store a tick that was taken
        elsewhere (external_ticker). Raises QueueNotFound, QueueRefused, DatabaseRestored,
        WrongTransaction.
        """
        if queue is None:
            return await self.runner.run(calls.maintain.ticker())
        if tick is None and time is None and event_seq is None:
            return await self.runner.run(calls.maintain.ticker_queue(queue))
        return await self.runner.run(calls.maintain.ticker_external(queue, tick, time, event_seq))

    async def tick_queue(self, queue: str) -> Tick | None:
        """Tick one queue now, due or not; None if it is gone, paused or ticked elsewhere.

        Raises DatabaseRestored, WrongTransaction.
        """
        return await self.runner.run(calls.maintain.tick_queue(queue))

    async def force_tick(self, queue: str) -> int | None:
        """Make the queue due for the next `ticker`; return its last tick's id. PGQ force_tick."""
        return await self.runner.run(calls.maintain.force_tick(queue))

    async def maint_retry_events(self) -> int:
        """Put due retry events back into their queues; return how many. Repeat until it is 0.

        PGQ maint_retry_events.
        """
        return await self.runner.run(calls.maintain.maint_retry_events())

    async def maint_history(self) -> int:
        """Write a row of the history, for `get_history`: 1; 0: none is due yet.

        The ticker calls it once a minute.
        """
        return await self.runner.run(calls.maintain.maint_history())

    async def maint_operations(self) -> list[MaintOperation]:
        """List the maintenance functions that are due, in order. PGQ maint_operations.

        One that returns 1 is to be called again at once.
        """
        return await self.runner.run(calls.maintain.maint_operations())
