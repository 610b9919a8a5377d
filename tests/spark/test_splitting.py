"""Cutting ranges of ticks: whatever is planned is the whole range, once."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgqpy.records import TickInfo
from pgqpy.spark.source import partitions
from pgqpy.spark.source.partitions import EventRange, split_range
from pgqpy.tick_sizes import IdRange, TickSize

numbers = st.integers(0, 3000)
# Of each tick: events with ids of its own, some with ids from before it, and those of its stages.
histories = st.lists(
    st.tuples(numbers, st.lists(numbers, max_size=2), st.lists(numbers, max_size=2)),
    min_size=1,
    max_size=30,
)


def tick(tick_id, seq):
    return TickInfo(tick_id, datetime.now(timezone.utc), "", seq, None)


def ticks_of(sizes):
    seqs = accumulate(sizes, initial=7)
    return [tick(3 * number, seq) for number, seq in enumerate(seqs)]


def history(drawn):
    """Return ticks, and their sizes: ids below 0 were taken before the range, a hundred at once."""
    ticks, sizes = ticks_of([own for own, _, _ in drawn]), []
    for number, (after, (own, late, staged)) in enumerate(zip(ticks[1:], drawn, strict=True)):
        seq = after.tick_event_seq
        found = [IdRange(seq - own + 1, seq + 1, own)]
        found += [IdRange(-(10**6) + 10**5 * place, 0, events) for place, events in enumerate(late)]
        stages = [(10 * number + place, events) for place, events in enumerate(staged)]
        sizes.append(TickSize(tuple(part for part in found if part.events), tuple(stages)))
    return ticks, sizes


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


def weight(piece, ticks, sizes):
    """Return about how many events a slice has: those of a part of ids lie anywhere in it."""
    first, last = (place for place, each in enumerate(ticks) if each.tick_id in piece[:2])
    mine = sizes[first:last]
    if piece.stages:
        return sum(
            events for size in mine for stage, events in size.stages if stage in piece.stages
        )
    if piece[2:] == (None, None, None):
        return sum(size.events for size in mine)
    return sum(share(part, piece) for size in mine for part in size.plain)


def share(part, piece):
    low = part.low if piece.low is None else max(part.low, piece.low)
    high = part.high if piece.high is None else min(part.high, piece.high)
    return part.events * max(0, high - low) / (part.high - part.low)


@given(histories, st.integers(1, 12))
def test_every_event_is_in_one_partition_and_a_slice_names_stages_of_its_own_tick_only(
    drawn, least
):
    ticks, sizes = history(drawn)
    cut = pieces(split_range(ticks, sizes, least))
    tick_of = {}
    for (before, after), size in zip(pairwise(ticks), sizes, strict=True):
        mine = [stage for stage, _ in size.stages]
        tick_of.update(dict.fromkeys(mine, after.tick_id))
        # an event of this tick with any id, those that the sequence does not promise too
        first, last = before.tick_event_seq + 1, after.tick_event_seq
        for event in (-(10**5), 0, first - 1, first, last, last + 1, 10**9):
            for stage in (None, *mine):
                assert sum(holds(piece, before, after, event, stage) for piece in cut) == 1
    for piece in cut:
        named = piece.stages or ()
        assert {tick_of[stage] for stage in named} <= {piece.to_tick}
        assert len(named) == len(set(named))


@given(histories, st.integers(1, 12))
def test_no_partition_is_empty_or_much_larger_than_its_share(drawn, least):
    ticks, sizes = history(drawn)
    total = sum(size.events for size in sizes)
    share = total / max(1, min(least, total))
    whole = max((events for size in sizes for _, events in size.stages), default=0)  # is not cut
    found = split_range(ticks, sizes, least)
    for partition in found:
        events = sum(weight(piece, ticks, sizes) for piece in partition)
        assert events <= share * (1 + 2 * partitions.TICK_TOLERANCE) + whole + 4
        assert events > 0 or len(found) == 1


def split(seqs, least=None, **sizes):
    """Split ticks with these sequence values; `tick_2=…` is the size of a tick that differs."""
    ticks = [tick(number, seq) for number, seq in enumerate(seqs, 1)]
    own = [IdRange(low + 1, high + 1, max(0, high - low)) for low, high in pairwise(seqs)]
    plain = [TickSize((part,) if part.events else ()) for part in own]
    found = [sizes.get(f"tick_{number}", size) for number, size in enumerate(plain, 2)]
    return split_range(ticks, found, least)


def test_without_a_wish_partitions_hold_half_a_million_events():
    assert len(split([0, 1_600_000])) == 4
    assert len(split([0, 400_000])) == 1


def test_a_tick_is_cut_into_sixteen_at_most_unless_more_are_wanted():
    """A sequence that was moved far looks like one, and makes no endless list of partitions."""
    found = split([0, 10, 2**62, 2**62 + 10])
    assert len(found) == partitions.MOST_PARTS + 1
    (first, *_), (*_, last) = found[0], found[-1]
    assert (first.from_tick, last.to_tick, last.high) == (1, 4, None)
    assert len(split([0, 2**62], 40)) == 40
    assert len(split(range(0, 10**10, 10**6))) == partitions.MOST_PARTITIONS


R, S = EventRange, TickSize
# The sequence at each tick, the partitions wanted, sizes of ticks that differ; the partitions.
CASES = {
    "ticks of equal size are cut at ticks": (
        [0, 100, 200, 300, 400],
        2,
        {},
        [[R(1, 3)], [R(3, 5)]],
    ),
    "one huge tick is cut by ids with open ends": (
        [0, 1000],
        3,
        {},
        [[R(1, 2, None, 334)], [R(1, 2, 334, 667)], [R(1, 2, 667, None)]],
    ),
    "a huge tick among small ones shares its partitions with them": (
        [0, 100, 1100, 1200],
        2,
        {},
        [[R(1, 2), R(2, 3, None, 601)], [R(2, 3, 601, None), R(3, 4)]],
    ),
    "a tick is cut by the ids of its events, wherever they were taken": (
        [0, 10, 20],
        4,
        {
            "tick_2": S(()),
            "tick_3": S((IdRange(-300, -100, 200), IdRange(1, 11, 10), IdRange(11, 21, 190))),
        },
        [
            [R(1, 2), R(2, 3, None, -200)],
            *([R(2, 3, *cut)] for cut in ((-200, -100), (-100, 16), (16, None))),
        ],
    ),
    "stages of one tick are shared out, their ids count where they are given": (
        [0, 500, 1000, 1001],
        2,
        {
            "tick_2": S((IdRange(1, 501, 1),)),
            "tick_3": S(()),
            "tick_4": S((IdRange(1001, 1002, 1),), tuple((stage, 250) for stage in (7, 8, 9, 10))),
        },
        [[R(1, 3), R(3, 4, stages=()), R(3, 4, stages=(7, 8))], [R(3, 4, stages=(9, 10))]],
    ),
    "a tick with stages that one task reads is read whole": (
        [0, 10, 20],
        1,
        {"tick_2": S((), ((7, 5),)), "tick_3": S((), ((8, 5),))},
        [[R(1, 3)]],
    ),
    "a stage larger than its share stays whole": (
        [0, 1000],
        4,
        {"tick_2": S((IdRange(1, 1001, 100),), ((7, 900),))},
        [[R(1, 2, stages=())], [R(1, 2, stages=(7,))]],
    ),
    "a range that promises nothing is read all the same": ([5, 5], 8, {}, [[R(1, 2)]]),
    "also if its sequence ran backwards": ([5, 0, 0], 8, {}, [[R(1, 3)]]),
    "and goes on": ([5, 0, 2], 8, {}, [[R(1, 2), R(2, 3, None, 2)], [R(2, 3, 2, None)]]),
}


@pytest.mark.parametrize(("seqs", "least", "sizes", "wanted"), CASES.values(), ids=CASES)
def test_a_range_is_cut_so(seqs, least, sizes, wanted):
    assert split(seqs, least, **sizes) == [tuple(cut) for cut in wanted]
