"""How a range of ticks is cut: where a micro-batch ends, and which task reads what. Pure.

Numbers of events are differences of sequence values: hints, good enough to balance, never relied on
for what is read. Staged events count where they were inserted: the tick that gives them has one
slice.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTITION_EVENTS = 500_000  # events of one partition at most, unless ticks promise too few
AT_THE_MARK = -1  # no event has this id
SNAP = 0.2  # of a partition; a boundary so near to a tick moves there


class Mark(NamedTuple):
    """A tick, and how far the queue's event sequence was."""

    tick: int
    seq: int


class Slice(NamedTuple):
    """The events after one tick up to another, of them those with low <= ev_id < high.

    None is open: ids that the sequence does not promise are in the first or the last slice.
    """

    from_tick: int
    to_tick: int
    low: int | None = None
    high: int | None = None


def partitions(marks: Sequence[Mark], least: int | None = None) -> list[tuple[Slice, ...]]:
    """Cut a range into partitions of about equal numbers of events.

    A partition starts and ends at ticks; inside a tick that is much larger than a partition, at
    event ids: those are as immutable as ticks, unlike the places of rows.

    Args:
        marks: the ticks of the range, ordered; the first is where it starts.
        least: how many partitions at least (option minPartitions), as far as there are events.
    """
    if len(marks) < 2:  # noqa: PLR2004  # a range has two ends
        return []
    total = marks[-1].seq - marks[0].seq
    wanted = max(-(-total // PARTITION_EVENTS), least or 1)
    count = max(1, min(wanted, total))
    cuts = _cuts(marks, total, count)
    return [tuple(_slices(marks, *pair)) for pair in pairwise(cuts)]


class _Cut(NamedTuple):
    """A place in a range: at a mark, or after it, before an event of the tick that follows."""

    place: int
    event: int = AT_THE_MARK


def _cuts(marks: Sequence[Mark], total: int, count: int) -> list[_Cut]:
    seqs = [mark.seq for mark in marks]
    cuts, last = [_Cut(0)], _Cut(len(marks) - 1)
    for number in range(1, count):
        cut = _cut(seqs, seqs[0] + total * number // count, total / count * SNAP)
        if cuts[-1] < cut < last:
            cuts.append(cut)
    return [*cuts, last]


def _cut(seqs: Sequence[int], wanted: int, near: float) -> _Cut:
    place = max(bisect_left(seqs, wanted), 1)
    before, after = wanted - seqs[place - 1], seqs[place] - wanted
    if min(before, after) > near:
        return _Cut(place - 1, wanted + 1)
    return _Cut(place if after <= before else place - 1)


def _slices(marks: Sequence[Mark], start: _Cut, end: _Cut) -> Iterator[Slice]:
    """Yield the slices between two cuts: a rest of a tick, whole ticks, a beginning of a tick."""
    place = start.place
    if start.event != AT_THE_MARK:
        same = end.place == place
        high = end.event if same else None
        yield Slice(marks[place].tick, marks[place + 1].tick, start.event, high)
        if same:
            return
        place += 1
    if end.place > place:
        yield Slice(marks[place].tick, marks[end.place].tick)
    if end.event != AT_THE_MARK:
        yield Slice(marks[end.place].tick, marks[end.place + 1].tick, None, end.event)
