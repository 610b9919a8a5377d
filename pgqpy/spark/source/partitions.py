"""Partitions, what an executor reads in one task: their columns, planning and splitting.

The estimated numbers of events balance the partitions; which events are read does not depend on
them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pgqpy import calls
from pgqpy.errors import InvalidArgument
from pgqpy.tick_ranges import TickFinder
from pgqpy.tick_sizes import tick_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import DataType

    from pgqpy.client import Client
    from pgqpy.records import TickInfo
    from pgqpy.tick_ranges import Queue
    from pgqpy.tick_sizes import IdRange, TickSize


TICK_ID = "tick_id"
QUEUE = "queue"
TXID = "ev_txid"
TIME = "ev_time"
TYPES: dict[str, DataType] = {
    "ev_id": LongType(),
    TIME: TimestampType(),
    TXID: LongType(),
    "ev_retry": IntegerType(),
    "ev_type": StringType(),
    "ev_data": StringType(),
    "ev_extra1": StringType(),
    "ev_extra2": StringType(),
    "ev_extra3": StringType(),
    "ev_extra4": StringType(),
    TICK_ID: LongType(),
    QUEUE: StringType(),
}
NEVER_NULL = frozenset({"ev_id", TIME, TXID, TICK_ID, QUEUE})


def whole_schema(*, several: bool = False) -> StructType:
    """Return the default schema: all columns of an event, tick_id and, of several, the queue."""
    return StructType(
        [StructField(name, kind) for name, kind in TYPES.items() if several or name != QUEUE]
    )


def selected_columns(schema: StructType) -> list[str]:
    """Return the columns to select on the server: at least one, and ev_txid for tick_id."""
    wanted = {*schema.names} - {TICK_ID, QUEUE}
    if TICK_ID in schema.names or not wanted:
        wanted.add(TXID)
    return [name for name in TYPES if name in wanted]


def checked_schema(schema: StructType) -> StructType:
    """Return the schema of a user; InvalidArgument for columns that events do not have."""
    for field in schema.fields:
        if schema.names.count(field.name) > 1:
            raise InvalidArgument(
                f"schema: column {field.name} appears twice: name it once",
                parameter="schema",
            )
        wanted = TYPES.get(field.name)
        if wanted is None:
            raise InvalidArgument(
                f"schema: events have no column {field.name!r}, only {', '.join(TYPES)}: "
                "parse ev_data with from_json",
                parameter="schema",
            )
        if not field.nullable and field.name not in NEVER_NULL:
            raise InvalidArgument(
                f"schema: column {field.name} may be null: declare it without NOT NULL",
                parameter="schema",
            )
        if field.dataType != wanted:
            raise InvalidArgument(
                f"schema: column {field.name} is {wanted.simpleString()}, "
                f"not {field.dataType.simpleString()}: cast it after reading",
                parameter="schema",
            )
    if not schema.fields:
        raise InvalidArgument("schema: name at least one column", parameter="schema")
    return schema


# In microseconds since 1970, the last years of PostgreSQL and its infinity are too large for 64
# bits: ADBC lets them wrap to values below its earliest time (4714 BC). Spark's last timestamp
# stands for them, and Spark's first one for -infinity.
EARLIEST = -210_866_803_200_000_000
MINUS_INFINITY = -(2**63) + 946_684_800_000_000  # PostgreSQL counts from 2000
FIRST, LAST = -(2**63), 2**63 - 1


def to_spark_batch(
    batch: pa.RecordBatch, schema: pa.Schema, partition: EventPartition
) -> pa.RecordBatch:
    """Return a batch with the columns of `schema`, in its order and types."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if partition.finder is not None:
        found[TICK_ID] = pa.array(partition.finder.find(found[TXID].to_numpy()))
    if QUEUE in schema.names:
        found[QUEUE] = pa.repeat(partition.queue, len(batch))
    if TIME in found:
        found[TIME] = _within_range(found[TIME])
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _within_range(times: Any) -> Any:
    counts = times.view(pa.int64()).to_numpy()
    if counts.min(initial=0) >= EARLIEST:
        return times
    fixed = np.where(counts < MINUS_INFINITY, LAST, counts)
    fixed[counts == MINUS_INFINITY] = FIRST
    return pa.array(fixed).view(times.type)


PARTITION_EVENTS = 500_000  # estimated events of a partition at most; a larger stage is not split
# Partitions of a range that PARTITION_EVENTS asks for, at most. A sequence that was moved forward,
# by seq_setval or an external ticker, makes a range look as if it had 10^18 events.
MOST_PARTITIONS = 2_000
# The same of one tick: each of them reads the whole tick to find its ids.
MOST_PARTS = 16
BEFORE_ALL = -1  # a cut at the start of a unit; no event has this id
TICK_TOLERANCE = 0.2  # of a partition; a cut this near to a tick moves to the tick


class EventRange(NamedTuple):
    """The events after `from_tick` up to `to_tick` with low <= ev_id < high.

    None means no limit: the first and the last range of a tick are open, so that they include ids
    outside of the sequence values at the ticks. `stages` is the argument of tick_event_sql: None
    for all events, () for events without a stage, ids for the events of these stages.
    """

    from_tick: int
    to_tick: int
    low: int | None = None
    high: int | None = None
    stages: tuple[int, ...] | None = None


def split_range(
    ticks: Sequence[TickInfo], sizes: Sequence[TickSize], min_partitions: int | None = None
) -> list[tuple[EventRange, ...]]:
    """Split a range into partitions of about equal numbers of events.

    A partition starts and ends at ticks or, inside a tick much larger than a partition, at event
    ids. Ids never change, unlike the physical positions of rows. A stage is not split: a query for
    some of its ids would read all of it.

    Args:
        ticks: the ticks of the range in order, beginning with its start.
        sizes: of the ticks, but for the first.
        min_partitions: the wanted number (option minPartitions). There are more if one would
            exceed PARTITION_EVENTS, as far as MOST_PARTITIONS and MOST_PARTS allow, and fewer where
            there is too little to divide.
    """
    units = list(_units(ticks, sizes))
    if not units:
        return []
    sums = list(accumulate((unit.events for unit in units), initial=0))
    most = max(PARTITION_EVENTS, max(unit.events for unit in units) // MOST_PARTS)
    full = min(-(-sums[-1] // most), MOST_PARTITIONS)
    wanted = max(full, min_partitions or 1)
    count = max(1, min(wanted, sums[-1]))
    cuts = _cuts(units, sums, count)
    return [tuple(_ranges(units, *pair)) for pair in pairwise(cuts)]


class _Unit(NamedTuple):
    """What is counted as one piece: a tick's events, one of its stages, or all but its stages.

    `stages` is as in `EventRange`. Only a piece without stages, which has `ids`, can be cut inside.
    """

    before: TickInfo
    after: TickInfo
    events: int
    ids: tuple[IdRange, ...]
    stages: tuple[int, ...] | None = None

    def estimated_id(self, number: int) -> int:
        """Return the least id such that about so many events have smaller ones."""
        ids = range(min(part.low for part in self.ids), max(part.high for part in self.ids))
        return ids[bisect_left(ids, number, key=self._events_below)]

    def event_range(self, low: int | None, high: int | None) -> EventRange:
        """Return the range of the events with low <= id < high."""
        return EventRange(self.before.tick_id, self.after.tick_id, low, high, self.stages)

    def _events_below(self, event_id: int) -> int:
        return sum(
            part.events
            * (min(max(event_id, part.low), part.high) - part.low)
            // (part.high - part.low)
            for part in self.ids
        )


def _units(ticks: Sequence[TickInfo], sizes: Sequence[TickSize]) -> Iterator[_Unit]:
    for (before, after), size in zip(pairwise(ticks), sizes, strict=True):
        plain = sum(part.events for part in size.plain)
        yield _Unit(before, after, plain, size.plain, () if size.stages else None)
        for stage, events in size.stages:
            yield _Unit(before, after, events, (), (stage,))


class _Cut(NamedTuple):
    """A cut before the unit at index `place` or, inside it, before the event with an id."""

    place: int
    event_id: int = BEFORE_ALL


def _cuts(units: Sequence[_Unit], sums: Sequence[int], count: int) -> list[_Cut]:
    cuts, reached = [_Cut(0)], 0
    for number in range(1, count):
        cut, events = _cut(
            units, sums, sums[-1] * number // count, sums[-1] / count * TICK_TOLERANCE
        )
        if reached < events < sums[-1]:
            cuts.append(cut)
            reached = events
    return [*cuts, _Cut(len(units))]


def _cut(units: Sequence[_Unit], sums: Sequence[int], wanted: int, near: float) -> tuple[_Cut, int]:
    """Return the best cut after about `wanted` events, and the number of events before it."""
    place = max(bisect_left(sums, wanted), 1)
    unit = units[place - 1]
    before, after = wanted - sums[place - 1], sums[place] - wanted
    if min(before, after) > near and not unit.stages:
        return _Cut(place - 1, unit.estimated_id(before)), wanted
    place -= before < after
    return _Cut(place), sums[place]


def _ranges(units: Sequence[_Unit], start: _Cut, end: _Cut) -> Iterator[EventRange]:
    """Yield the ranges between two cuts: the rest of a tick, whole ticks, the start of a tick."""
    whole: list[_Unit] = []
    places = range(start.place, end.place + (end.event_id != BEFORE_ALL))
    for _tick, found in groupby(places, lambda place: units[place].after):
        mine = list(found)
        inside = [at for at in (start, end) if at.event_id != BEFORE_ALL and at.place in mine]
        if not inside and _all_of_tick(units, mine):
            whole += [units[place] for place in mine]
            continue
        yield from _joined(whole)
        whole = []
        if not units[mine[0]].stages:
            low, high = (at.event_id if at in inside else None for at in (start, end))
            yield units[mine[0]].event_range(low, high)
        yield from _staged_range([units[place] for place in mine])
    yield from _joined(whole)


def _all_of_tick(units: Sequence[_Unit], places: Sequence[int]) -> bool:
    around = (places[0] - 1, places[-1] + 1)
    tick = units[places[0]].after
    return all(not 0 <= place < len(units) or units[place].after != tick for place in around)


def _staged_range(units: Sequence[_Unit]) -> Iterator[EventRange]:
    stages = tuple(stage for unit in units for stage in unit.stages or ())
    if stages:
        yield units[0]._replace(stages=stages).event_range(None, None)


def _joined(whole: Sequence[_Unit]) -> Iterator[EventRange]:
    if whole:
        yield EventRange(whole[0].before.tick_id, whole[-1].after.tick_id)


@dataclass(kw_only=True, repr=False, eq=False)
class EventPartition(InputPartition):
    """A query over one or more ranges of ticks.

    The query contains the snapshots, so it selects the same events even if the ticks are removed
    between planning and reading. It cannot detect a rotation: for that the reader checks
    `from_tick`. Nor does it notice that a failover, a restore or a repair gave the queue other
    ticks: for that the reader asks for `planned_end`, the end of the range that was planned.
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
    if start == end:
        return []
    ticks = client.call(calls.ticks.get_tick_info(queue.name, start, end))
    ids = ticks[-1].tick_event_seq - ticks[0].tick_event_seq
    sizes = tick_sizes(client, queue, start, ticks, min(ids // 100, PARTITION_EVENTS // 5))
    return [
        _partition(client, queue, ranges, ticks, schema, types)
        for ranges in split_range(ticks, sizes, min_partitions)
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
