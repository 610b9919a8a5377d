"""Estimates of how many events each tick of a range holds, and with which ids.

A tick holds the events that its snapshot is the first to see. Most of them took their ids since the
tick before. A transaction that stays open over a tick takes ids before it, and its events are in a
later one: a COPY of a million events takes the ids of many ticks, and one tick holds all of them.
So the events of such late transactions are counted by the index on ev_txid, and so are those of
stages, which wait in the same way. Which events are read does not depend on the estimates.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql
from psycopg.rows import tuple_row

from pgqpy import calls
from pgqpy.records import TickInfo
from pgqpy.tick_ranges import TickFinder, parse_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pgqpy.client import Client
    from pgqpy.tick_ranges import Queue

LEAST = 10_000  # events; a transaction that can hold fewer is not counted
# A snapshot does not list a transaction that is open if no later one has ended. So the first ids
# from xmax on may be open too. There are few: as many as sessions that write at the same moment.
UNLISTED = 20
STAGED = 2**63 - 1  # above every id: a stage is late whatever its ids are


class IdRange(NamedTuple):
    """About so many events with low <= ev_id < high, evenly spread."""

    low: int
    high: int
    events: int


class TickSize(NamedTuple):
    """What a tick holds: its events without a stage, and the stages it releases, with events."""

    plain: tuple[IdRange, ...]
    stages: tuple[tuple[int, int], ...] = ()

    @property
    def events(self) -> int:
        """The estimated number of events."""
        return sum(part.events for part in self.plain) + sum(events for _, events in self.stages)


class Count(NamedTuple):
    """The events of a transaction whose ids were taken before the tick at index `place`.

    `place` is 0 for ids from before the range, and the number of ticks for ids from after it.
    """

    txid: int
    place: int
    events: int
    low: int
    high: int


# The first event of a transaction tells whether any of its ids is from before the tick `seq`. An
# open transaction is left out: its rows are invisible, and passing over them takes as long.
COUNTS = sql.SQL("""
    select late.txid, counted.*
      from (
            select txid, seq from unnest(%s::bigint[], %s::bigint[]) known (txid, seq)
             where txid_visible_in_snapshot(txid, txid_current_snapshot()) offset 0) late
     cross join lateral (select ev_id from {table} where ev_txid = late.txid limit 1) first
     cross join lateral (
            select width_bucket(ev_id, %s::bigint[]), count(*), min(ev_id), max(ev_id)
              from {table} where ev_txid = late.txid and ev_owner is null group by 1) counted
     where first.ev_id <= late.seq""")


def tick_sizes(
    client: Client, queue: Queue, start: int, ticks: Sequence[TickInfo], ignored: int
) -> list[TickSize]:
    """Return the sizes of the ticks of a range, but for the first, where the range starts.

    Call it inside `tick_ranges.locked_queue`.

    Args:
        client: a client whose role may read the events.
        queue: the queue.
        start: the tick where the range starts.
        ticks: the ticks of the range in order, beginning with that one.
        ignored: do not count a transaction that can hold fewer events.

    Raises:
        NotFound: compaction removed the tick `start`.
        RangeExpired: rotation removed events after it.
    """
    stages = client.call(calls.ticks.get_tick_stages(queue.name, start, ticks[-1].tick_id))
    finder = TickFinder.between([(tick.tick_id, tick.tick_snapshot) for tick in ticks])
    places = {tick.tick_id: place for place, tick in enumerate(ticks)}
    tick_of = finder.find([each.stage_released_by for each in stages]).tolist()
    released: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for tick, each in zip(tick_of, stages, strict=True):
        released[places[tick]].append((each.stage, each.events))
    late = late_transactions(ticks, max(ignored, LEAST))
    for each in stages:
        late.pop(each.stage_txid, None)
    seqs = [*accumulate((tick.tick_event_seq for tick in ticks), max)]
    known = {txid: seqs[place] for txid, place in late.items()}
    known.update((each.stage_txid, STAGED) for each in stages)
    counts = _count(client, queue, known, seqs) if known else []
    return estimate(seqs, counts, late, released)


def late_transactions(ticks: Sequence[TickInfo], least: int) -> dict[int, int]:
    """Return transactions that may hold `least` events of which some took ids before another tick.

    The value is the index of the last tick that does not see the transaction. One that was open at
    the first tick is always listed, because its ids may be from before the range.
    """
    snapshots = [parse_snapshot(tick.tick_snapshot) for tick in ticks]
    seqs, end = [tick.tick_event_seq for tick in ticks], len(ticks) - 1
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, snapshot in enumerate(snapshots):
        unlisted: Iterable[int] = ()
        if not place or seqs[min(place + 1, end)] - seqs[place - 1] >= least:
            above = snapshot.xmax + UNLISTED
            unlisted = range(
                snapshot.xmax, above if place == end else min(above, snapshots[place + 1].xmax)
            )
        for txid in (*snapshot.in_progress, *unlisted):
            first.setdefault(txid, place)
            last[txid] = place
    return {
        txid: place
        for txid, place in last.items()
        if not first[txid] or seqs[min(place + 1, end)] - seqs[first[txid] - 1] >= least
    }


def estimate(
    seqs: Sequence[int],
    counts: Iterable[Count],
    late: Mapping[int, int],
    released: Mapping[int, Sequence[tuple[int, int]]],
) -> list[TickSize]:
    """Return the sizes of the ticks of a range, but for the first.

    Args:
        seqs: tick_event_seq of each tick; none is smaller than the one before.
        counts: of late transactions, and of the stages that are released in the range.
        late: the index of the last tick that does not see a transaction.
        released: the stages that the tick at an index releases, with their numbers of events.
    """
    taken: Counter[int] = Counter()
    moved: dict[int, list[IdRange]] = defaultdict(list)
    for count in counts:
        taken[count.place] += count.events
        if count.txid in late:
            moved[late[count.txid] + 1].append(IdRange(count.low, count.high + 1, count.events))
    sizes = []
    for place, (before, after) in enumerate(pairwise(seqs), 1):
        own = IdRange(before + 1, after + 1, max(0, after - before - taken[place]))
        plain = (part for part in (own, *moved[place]) if part.events)
        sizes.append(TickSize(tuple(plain), tuple(released.get(place, ()))))
    return sizes


def _count(
    client: Client, queue: Queue, known: Mapping[int, int], seqs: Sequence[int]
) -> list[Count]:
    query = COUNTS.format(table=sql.SQL(queue.table))
    ends = [seq + 1 for seq in seqs]
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(query, (list(known), list(known.values()), ends)).fetchall()
    return [Count(*row) for row in found]


class Limits(NamedTuple):
    """The size limits of a range, which is at least one tick. None means no limit."""

    events: int | None = None
    ticks: int | None = None


PAGE = 1_000  # ticks that are read at once

# If compaction has removed the tick `most`, the next one counts.
LAST_TICK = """
    select max(tick_id) from (
        select tick_id from pgq.tick
         where tick_queue = %(queue)s and tick_id > %(start)s
           and tick_id <= (select min(tick_id) from pgq.tick
                            where tick_queue = %(queue)s and tick_id >= %(most)s)
         order by tick_id
         limit %(ticks)s) t"""
TICKS = """
    select tick_id, tick_time, tick_snapshot::text, tick_event_seq, null
      from pgq.tick where tick_queue = %s and tick_id between %s and %s
     order by tick_id limit %s"""


def find_end(client: Client, queue: Queue, start: int, most: int, limits: Limits) -> int | None:
    """Return the last tick of the range after `start`; None if there is no later tick.

    The range has whole ticks, at least one. Call it inside `tick_ranges.locked_queue`.
    """
    wanted = {"queue": queue.id, "start": start, "most": most, "ticks": limits.ticks}
    with client.connection.cursor(row_factory=tuple_row) as cursor:
        last: int | None = (cursor.execute(LAST_TICK, wanted).fetchone() or (None,))[0]
        if last is None or limits.events is None:
            return last
        end, events = start, 0
        while end < last:
            rows = cursor.execute(TICKS, (queue.id, end, last, PAGE + 1)).fetchall()
            ticks = [TickInfo(*row) for row in rows]
            sizes = tick_sizes(client, queue, end, ticks, limits.events // 10)
            for tick, size in zip(ticks[1:], sizes, strict=True):
                events += size.events
                if events > limits.events and end > start:
                    return end
                end = tick.tick_id
        return last
