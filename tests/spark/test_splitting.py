"""Cutting ranges of ticks: whatever is planned is the whole range, once."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqpy.records import TickInfo
from pgqpy.spark.source import partitions
from pgqpy.spark.source.partitions import EventRange, ReleasedStage, split_range

sizes = st.lists(st.integers(0, 3000), min_size=1, max_size=30)
# by which tick their ids were taken, if in the range; by which they are given; how many they are
stages = st.lists(
    st.tuples(st.none() | st.integers(0, 29), st.integers(0, 29), st.integers(0, 3000)), max_size=8
)


def tick(tick_id, seq):
    return TickInfo(tick_id, datetime.now(timezone.utc), "", seq, None)


def ticks_of(sizes):
    seqs = accumulate(sizes, initial=7)
    return [tick(3 * number, seq) for number, seq in enumerate(seqs)]


def history(sizes, stages):
    """Return the ticks and the released of ticks with so many events that were not staged."""
    last, taken, released = len(sizes) - 1, list(sizes), []
    for number, (inserted, give, events) in enumerate(stages):
        at = min(give, last)
        place = None if inserted is None else min(inserted, at)
        if place is not None:
            taken[place] += events
        inserted_in = None if place is None else 3 * (place + 1)
        released.append(ReleasedStage(3 * (at + 1), 100 + number, events, inserted_in))
    return ticks_of(taken), released


def pieces(found):
    return [piece for partition in found for piece in partition]


def holds(piece, before, after, event, stage):
    """Say whether a slice holds an event of a tick: of a stage, or of none."""
    return (
        piece.from_tick <= before.tick_id
        and after.tick_id <= piece.to_tick
        and (piece.low is None or piece.low <= event)
        and (piece.high is None or event < piece.high)
        and (piece.stages is None or stage in (piece.stages or (None,)))
    )


def weight(piece, sizes, ticks, released):
    """Return about how many events a slice has: those that were not staged lie anywhere."""
    place = piece.from_tick // 3
    if piece.stages:
        return sum(each.events for each in released if each.stage in piece.stages)
    if piece.low is None and piece.high is None and piece.stages is None:
        given = [each for each in released if piece.from_tick < each.released_in <= piece.to_tick]
        return sum(sizes[place : piece.to_tick // 3]) + sum(each.events for each in given)
    first, end = ticks[place].tick_event_seq + 1, ticks[place + 1].tick_event_seq + 1
    ids = (piece.high or end) - (piece.low or first)
    return sizes[place] * ids / (end - first) if sizes[place] else 0


@given(sizes, st.integers(1, 12), stages)
def test_every_event_is_in_one_partition_and_a_slice_names_stages_of_its_own_tick_only(
    sizes, least, stages
):
    ticks, released = history(sizes, stages)
    cut = pieces(split_range(ticks, least, released))
    for before, after in pairwise(ticks):
        mine = [each.stage for each in released if each.released_in == after.tick_id]
        # an event of this tick with any id, those that the sequence does not promise too
        first, last = before.tick_event_seq + 1, after.tick_event_seq
        for event in (0, first - 1, first, last, last + 1, 10**9):
            for stage in (None, *mine):
                assert sum(holds(piece, before, after, event, stage) for piece in cut) == 1
    tick_of = {each.stage: each.released_in for each in released}
    for piece in cut:
        named = piece.stages or ()
        assert {tick_of[stage] for stage in named} <= {piece.to_tick}
        assert len(named) == len(set(named))


@given(sizes, st.integers(1, 12), stages)
def test_no_partition_is_empty_or_much_larger_than_its_share(sizes, least, stages):
    ticks, released = history(sizes, stages)
    total = sum(sizes) + sum(each.events for each in released)
    share = total / max(1, min(least, total))
    whole = max((each.events for each in released), default=0)  # a stage is not cut
    found = split_range(ticks, least, released)
    for partition in found:
        events = sum(weight(piece, sizes, ticks, released) for piece in partition)
        assert events <= share * (1 + 2 * partitions.TICK_TOLERANCE) + whole + 2
        assert events > 0 or len(found) == 1


def test_without_a_wish_partitions_hold_half_a_million_events():
    assert len(split_range([tick(1, 0), tick(2, 1_600_000)])) == 4
    assert len(split_range([tick(1, 0), tick(2, 400_000)])) == 1


def test_a_sequence_that_was_moved_far_makes_no_endless_list_of_partitions():
    found = split_range([tick(1, 0), tick(2, 10), tick(3, 2**62), tick(4, 2**62 + 10)])
    assert len(found) == partitions.MOST_PARTITIONS
    (first, *_), (*_, last) = found[0], found[-1]
    assert (first.from_tick, last.to_tick, last.high) == (1, 4, None)


R, S = EventRange, ReleasedStage
# The sequence at each tick, the partitions wanted, stages; the partitions.
CASES = {
    "ticks of equal size are cut at ticks": (
        [0, 100, 200, 300, 400],
        2,
        [],
        [[R(1, 3)], [R(3, 5)]],
    ),
    "one huge tick is cut by ids with open ends": (
        [0, 1000],
        3,
        [],
        [[R(1, 2, None, 334)], [R(1, 2, 334, 667)], [R(1, 2, 667, None)]],
    ),
    "a huge tick among small ones shares its partitions with them": (
        [0, 100, 1100, 1200],
        2,
        [],
        [[R(1, 2), R(2, 3, None, 601)], [R(2, 3, 601, None), R(3, 4)]],
    ),
    "stages of one tick are shared out, their ids count where they are given": (
        [0, 500, 1000, 1001],
        2,
        [S(4, stage, 250, 3) for stage in (7, 8, 9, 10)],
        [[R(1, 3), R(3, 4, stages=()), R(3, 4, stages=(7, 8))], [R(3, 4, stages=(9, 10))]],
    ),
    "a tick with stages that one task reads is read whole": (
        [0, 10, 20],
        1,
        [S(2, 7, 5, 2), S(3, 8, 5, None)],
        [[R(1, 3)]],
    ),
    "a stage larger than its share stays whole": (
        [0, 1000],
        4,
        [S(2, 7, 900, 2)],
        [[R(1, 2, stages=())], [R(1, 2, stages=(7,))]],
    ),
    "ids of staged events are taken from the newest ticks": (
        [0, 1000, 1500, 2000],
        2,
        [S(4, 7, 1000, 4)],
        [[R(1, 2)], [R(2, 4)]],
    ),
    "ids that were staged before the range are not taken from it": (
        [5000, 6000],
        2,
        [S(2, 7, 1000, None)],
        [[R(1, 2, stages=())], [R(1, 2, stages=(7,))]],
    ),
    "a range that promises nothing is read all the same": ([5, 5], 8, [], [[R(1, 2)]]),
    "also if its sequence ran backwards": ([5, 0, 0], 8, [], [[R(1, 3)]]),
    "and goes on": ([5, 0, 2], 8, [], [[R(1, 2), R(2, 3, None, 2)], [R(2, 3, 2, None)]]),
    "a range of one tick has no partition": ([5], 8, [], []),
    "nor has one of none": ([], 8, [], []),
}


@pytest.mark.parametrize(("seqs", "least", "released", "wanted"), CASES.values(), ids=CASES)
def test_a_range_is_cut_so(seqs, least, released, wanted):
    ticks = [tick(number, seq) for number, seq in enumerate(seqs, 1)]
    assert split_range(ticks, least, released) == [tuple(cut) for cut in wanted]
