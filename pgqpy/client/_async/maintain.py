"""The client of the ticker daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pgqpy import calls
from pgqpy.client._async.base import AsyncBase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pgqpy.calls import Interval
    from pgqpy.records import MaintOperation, NextTick, Tick


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
        """Tick the queues that are due by their settings.

        Args:
            queue: only this one.
            tick: with time and event_seq: store a tick taken elsewhere (external_ticker).
            time: when that tick was taken (aware datetime).
            event_seq: the last event id it covers.

        Returns:
            Without a queue, how many were ticked. With one, its new tick's id, or None.

        Raises:
            QueueNotFound, TickerPaused, DatabaseRestored, WrongIsolation.

        PGQ ticker, pgq-contract 1.5.
        """
        if queue is None:
            return await self.runner.run(calls.maintain.ticker())
        if tick is None and time is None and event_seq is None:
            return await self.runner.run(calls.maintain.ticker_queue(queue))
        return await self.runner.run(calls.maintain.ticker_external(queue, tick, time, event_seq))

    async def tick_queue(self, queue: str) -> Tick | None:
        """Tick one queue now, due or not; None if it is gone, paused or ticked elsewhere.

        Raises:
            DatabaseRestored, WrongIsolation; NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.tick_queue(queue))

    async def force_tick(self, queue: str) -> int | None:
        """Make the queue due for the next `ticker`; return its last tick's id until then.

        PGQ force_tick, pgq-contract 1.5.
        """
        return await self.runner.run(calls.maintain.force_tick(queue))

    async def ticker_activity(self) -> dict[str, int]:
        """Return the last event id of every queue that is ticked here. Writes nothing.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.ticker_activity())

    async def ticker_pulse(self, first: int, last: int, excluded: Sequence[int] = ()) -> str:
        """Return a text that changes when an event comes into one of many queues. Writes nothing.

        Args:
            first: the lowest id of a queue.
            last: the highest.
            excluded: ids of queues that do not count.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.ticker_pulse(first, last, excluded))

    async def ticker_due(self) -> list[str]:
        """Name the queues that `ticker` would tick now. Writes nothing.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.ticker_due())

    async def find_tick_helper(
        self,
        queue_id: int,
        prev_tick_id: int,
        prev_tick_time: datetime,
        prev_tick_seq: int,
        min_count: int | None,
        min_interval: Interval | None,
    ) -> NextTick | None:
        """Find the tick at which next_batch_custom would end a batch; None if there is none yet.

        PGQ find_tick_helper, pgq-contract 1.4.
        """
        last = (queue_id, prev_tick_id, prev_tick_time, prev_tick_seq)
        return await self.runner.run(
            calls.maintain.find_tick_helper(*last, min_count, min_interval)
        )

    async def maint_retry_events(self) -> int:
        """Put retry events whose time has come back into their queues; return how many.

        Call again until it returns 0. PGQ maint_retry_events, pgq-contract 1.7.
        """
        return await self.runner.run(calls.maintain.maint_retry_events())

    async def maint_rotate_tables_step1(self, queue: str) -> int:
        """Switch a queue to its next table, truncated, if that is due and safe; 0.

        PGQ maint_rotate_tables_step1, pgq-contract 1.7.
        """
        return await self.runner.run(calls.maintain.maint_rotate_tables_step1(queue))

    async def maint_rotate_tables_step2(self) -> int:
        """Note, in a later transaction, that every switch is visible to all; 0.

        PGQ maint_rotate_tables_step2, pgq-contract 1.7.
        """
        return await self.runner.run(calls.maintain.maint_rotate_tables_step2())

    async def maint_tables_to_vacuum(self) -> list[str]:
        """Name the small tables to vacuum. PGQ maint_tables_to_vacuum, pgq-contract 1.7."""
        return await self.runner.run(calls.maintain.maint_tables_to_vacuum())

    async def maint_operations(self) -> list[MaintOperation]:
        """List the duties that are due, in order.

        A function that returns 1 wants to be called again at once. PGQ, pgq-contract 1.7.
        """
        return await self.runner.run(calls.maintain.maint_operations())

    async def maint_ticks(self, queue: str) -> int:
        """Delete ticks that nobody needs: 1 = call again at once, 0 = done.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.maint_ticks(queue))

    async def maint_recent_ticks(self) -> int:
        """Compact the table of the latest ticks if it has grown: 1 = call again at once, 0 = done.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.maint_recent_ticks())

    async def maint_positions(self) -> int:
        """Trim the log of positions: 1 = call again at once, 0 = done.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.maint_positions())

    async def maint_stages(self) -> int:
        """Give up stages that wait in vain, and forget writers that are gone; 0 = done.

        Raises:
            NotSupported: on the real extension.
        """
        return await self.runner.run(calls.maintain.maint_stages())
