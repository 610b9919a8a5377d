"""The partition: what the driver sends to an executor to read in one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from pgqpy.spark.source.tick_finder import TickFinder


class EventPartition(InputPartition):
    """A query over one or more ranges of ticks.

    The query contains the snapshots, so it selects the same events even if the ticks are removed
    between planning and reading. It cannot detect a rotation: for that the reader checks
    `from_tick`.
    """

    def __init__(
        self,
        *,
        queue: str,
        queue_id: int,
        table: str,
        from_tick: int,
        to_tick: int,
        query: str,
        finder: TickFinder | None = None,
    ) -> None:
        super().__init__(None)
        self.queue = queue
        self.queue_id = queue_id
        self.table = table  # parent of the event tables, quoted
        self.from_tick = from_tick
        self.to_tick = to_tick
        self.query = query
        self.finder = finder

    def __repr__(self) -> str:
        return f"EventPartition({self.queue!r}, {self.from_tick}, {self.to_tick})"
