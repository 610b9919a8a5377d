"""How a range of ticks is cut: where a micro-batch ends, and which task reads what. Pure.

Numbers of events are hints, good enough to balance, never relied on for what is read: differences
of sequence values, and what commit_stage was told.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PARTITION_EVENTS = 500_000  # events of one partition at most, as far as hints go and stages allow
BEFORE_ALL = -1  # no event has this id
SNAP = 0.2  # of a partition; a boundary so near to a tick moves there


class Mark(NamedTuple):
    """A tick, and how far the queue's event sequence was."""

    tick: int
    seq: int


class CommittedStage(NamedTuple):
    """A stage, the tick that is the first to give its events, and how many they are.

    `counted` is the tick by which their ids were taken; None: before the range.
    """

    tick: int
    stage: int
    events: int
    counted: int | None


class EventRange(NamedTuple):
    """The events after one tick up to another, of them those with low <= ev_id < high.

    None is open: ids that the sequence does not promise are in the first or the last slice.
    `stages` is what tick_event_sql takes.
    """

    from_tick: int
    to_tick: int
    low: int | None = None
    high: int | None = None
    stages: tuple[int, ...] | None = None


def split_range(
    marks: Sequence[Mark],
    min_partitions: int | None = None,
    committed: Iterable[CommittedStage] = (),
) -> list[tuple[EventRange, ...]]:
    """Cut a range into partitions of about equal numbers of events.

    A partition starts and ends at ticks; inside a tick that is much larger than a partition, at
    event ids: those are as immutable as ticks, unlike the places of rows. A stage stays whole: it
    was one task's, and a search for some of its ids would read all of it.

    Args:
        marks: the ticks of the range, ordered; the first is where it starts.
        min_partitions: how many partitions at least (option minPartitions), if there are as many
            events.
        committed: the stages that the range gives.
    """
    if len(marks) < 2:  # noqa: PLR2004  # a range has two ends
        return []
    units = list(_units(marks, committed))
    sums = list(accumulate((unit.events for unit in units), initial=0))
    wanted = max(-(-sums[-1] // PARTITION_EVENTS), min_partitions or 1)
    count = max(1, min(wanted, sums[-1]))
    cuts = _cuts(units, sums, count)
    return [tuple(_ranges(units, *pair)) for pair in pairwise(cuts)]


class _Unit(NamedTuple):
    """What one tick brings: all of it, or a stage of it (`stages`), or all but stages (none)."""

    before: Mark
    after: Mark
    events: int
    stages: tuple[int, ...] | None = None

    def event(self, number: int) -> int:
        """Return about the id of one of the events, counted from 0."""
        ids = self.after.seq - self.before.seq
        return self.before.seq + 1 + number * ids // self.events

    def event_range(self, low: int | None, high: int | None) -> EventRange:
        """Return the events with ids between two."""
        return EventRange(self.before.tick, self.after.tick, low, high, self.stages)


def _units(marks: Sequence[Mark], committed: Iterable[CommittedStage]) -> Iterator[_Unit]:
    given: dict[int, list[CommittedStage]] = defaultdict(list)
    staged: dict[int, int] = defaultdict(int)
    for stage in committed:
        given[stage.tick].append(stage)
        if stage.counted is not None:
            staged[stage.counted] += stage.events
    plain = _not_staged(marks, staged)
    for (before, after), events in zip(pairwise(marks), plain, strict=True):
        if after.tick not in given:
            yield _Unit(before, after, events)
            continue
        yield _Unit(before, after, events, ())
        for stage in given[after.tick]:
            yield _Unit(before, after, stage.events, (stage.stage,))


def _not_staged(marks: Sequence[Mark], staged: Mapping[int, int]) -> list[int]:
    """Return how many ids each tick brings, without the newest ones by the end of each stage."""
    plain: list[int] = []
    some: list[int] = []  # places with ids that are left
    for place, (before, after) in enumerate(pairwise(marks)):
        plain.append(max(0, after.seq - before.seq))
        if plain[place]:
            some.append(place)
        wanted = staged.get(after.tick, 0)
        while wanted and some:
            taken = min(wanted, plain[some[-1]])
            wanted -= taken
            plain[some[-1]] -= taken
            if not plain[some[-1]]:
                some.pop()
    return plain


class _Cut(NamedTuple):
    """A place in a range: before a unit, or in it, before an event."""

    place: int
    event: int = BEFORE_ALL


def _cuts(units: Sequence[_Unit], sums: Sequence[int], count: int) -> list[_Cut]:
    cuts, reached = [_Cut(0)], 0
    for number in range(1, count):
        cut, events = _cut(units, sums, sums[-1] * number // count, sums[-1] / count * SNAP)
        if reached < events < sums[-1]:
            cuts.append(cut)
            reached = events
    return [*cuts, _Cut(len(units))]


def _cut(units: Sequence[_Unit], sums: Sequence[int], wanted: int, near: float) -> tuple[_Cut, int]:
    """Return the cut that is best for so many events before it, and how many these are."""
    place = max(bisect_left(sums, wanted), 1)
    unit = units[place - 1]
    before, after = wanted - sums[place - 1], sums[place] - wanted
    if min(before, after) > near and not unit.stages:
        return _Cut(place - 1, unit.event(before)), wanted
    place -= before < after
    return _Cut(place), sums[place]


def _ranges(units: Sequence[_Unit], start: _Cut, end: _Cut) -> Iterator[EventRange]:
    """Yield the slices between two cuts: a rest of a tick, whole ticks, a beginning of a tick."""
    whole: list[_Unit] = []
    places = range(start.place, end.place + (end.event != BEFORE_ALL))
    for _tick, found in groupby(places, lambda place: units[place].after):
        mine = list(found)
        cut = [each for each in (start, end) if each.event != BEFORE_ALL and each.place in mine]
        if not cut and _all_of_tick(units, mine):
            whole += [units[place] for place in mine]
            continue
        yield from _joined(whole)
        whole = []
        if not units[mine[0]].stages:
            low, high = (at.event if at in cut else None for at in (start, end))
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
        yield EventRange(whole[0].before.tick, whole[-1].after.tick)
