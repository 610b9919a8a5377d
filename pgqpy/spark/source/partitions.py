"""Partitions, what an executor reads in one task, and their planning in the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql.datasource import InputPartition

from pgqpy import calls
from pgqpy.spark.source.columns import TICK_ID, selected_columns
from pgqpy.spark.source.splitting import ReleasedStage, split_range
from pgqpy.tick_finder import TickFinder, parse_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

    from pgqpy.client import Client
    from pgqpy.records import TickInfo
    from pgqpy.spark.source.splitting import EventRange
    from pgqpy.tick_ranges import Queue


@dataclass(kw_only=True, repr=False, eq=False)
class EventPartition(InputPartition):
    """A query over one or more ranges of ticks.

    The query contains the snapshots, so it selects the same events even if the ticks are removed
    between planning and reading. It cannot detect a rotation: for that the reader checks
    `from_tick`. Nor does it notice that a failover, a restore or a repair gave the queue other
    ticks: for that the reader looks for `planned_end`, the end of the range that was planned.
    """

    queue: str
    queue_id: int
    table: str  # parent of the event tables, quoted
    from_tick: int
    to_tick: int
    planned_end: TickInfo
    query: str
    finder: TickFinder | None = None

    def __repr__(self) -> str:
        return f"EventPartition({self.queue!r}, {self.from_tick}, {self.to_tick})"


def plan_partitions(
    client: Client,
    queue: Queue,
    start: int,
    end: int,
    schema: StructType,
    min_partitions: int | None = None,
    types: Sequence[str] | None = None,
) -> list[EventPartition]:
    """Return the partitions of the range from tick `start` to tick `end`.

    Call it inside `tick_ranges.locked_queue`.
    """
    ticks = client.call(calls.ticks.get_tick_info(queue.name, start, end))
    stages = _released_stages(client, queue, ticks, start, end) if start < end else []
    return [
        _partition(client, queue, ranges, ticks, schema, types)
        for ranges in split_range(ticks, min_partitions, stages)
    ]


def _released_stages(
    client: Client, queue: Queue, ticks: Sequence[TickInfo], start: int, end: int
) -> list[ReleasedStage]:
    stages = client.call(
        calls.ticks.get_tick_stages(queue.name, start, end)
    )  # raises if a tick is missing
    if not stages:
        return []
    finder = _finder(ticks, start, end)
    released_in = finder.find([each.stage_released_by for each in stages]).tolist()
    inserted_in = finder.find([each.stage_txid for each in stages]).tolist()
    before = parse_snapshot(ticks[0].tick_snapshot)
    return [
        ReleasedStage(
            tick, each.stage, each.events, None if before.sees(each.stage_txid) else seen_by
        )
        for tick, seen_by, each in zip(released_in, inserted_in, stages, strict=True)
    ]


def _partition(
    client: Client,
    queue: Queue,
    ranges: tuple[EventRange, ...],
    ticks: Sequence[TickInfo],
    schema: StructType,
    types: Sequence[str] | None,
) -> EventPartition:
    start, end = ranges[0].from_tick, ranges[-1].to_tick
    columns = sql.SQL(", ").join(map(sql.Identifier, selected_columns(schema)))
    queries = [
        sql.SQL("select {} from ({}) e where {}").format(
            columns,
            sql.SQL(
                client.call(
                    calls.ticks.tick_event_sql(
                        queue.name, each.from_tick, each.to_tick, each.stages, types=types
                    )
                )
            ),
            _where(each),
        )
        for each in ranges
    ]
    return EventPartition(
        queue=queue.name,
        queue_id=queue.id,
        table=queue.table,
        from_tick=start,
        to_tick=end,
        planned_end=ticks[-1],
        query=sql.SQL(" union all ").join(queries).as_string(None),
        finder=_finder(ticks, start, end) if TICK_ID in schema.names else None,
    )


def _where(ids: EventRange) -> sql.Composable:
    wanted: list[sql.Composable] = [sql.SQL("true")]
    if ids.low is not None:
        wanted.append(sql.SQL("ev_id >= {}").format(ids.low))
    if ids.high is not None:
        wanted.append(sql.SQL("ev_id < {}").format(ids.high))
    return sql.SQL(" and ").join(wanted)


def _finder(ticks: Sequence[TickInfo], start: int, end: int) -> TickFinder:
    mine = [(tick.tick_id, tick.tick_snapshot) for tick in ticks if start <= tick.tick_id <= end]
    return TickFinder.between(mine)
