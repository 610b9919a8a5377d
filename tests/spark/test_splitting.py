"""Cutting ranges of ticks: whatever is planned is the whole range, once."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from pgqpy.spark.source import splitting
from pgqpy.spark.source.splitting import Gift, Mark, Slice, partitions

sizes = st.lists(st.integers(0, 3000), min_size=1, max_size=30)
# by which tick their ids were taken, if in the range; by which they are given; how many they are
stages = st.lists(
    st.tuples(st.none() | st.integers(0, 29), st.integers(0, 29), st.integers(0, 3000)), max_size=8
)


def marks_of(sizes):
    seqs = accumulate(sizes, initial=7)
    return [Mark(3 * number, seq) for number, seq in enumerate(seqs)]


def history(sizes, stages):
    """Return the marks and the gifts of ticks with so many events that were not staged."""
    last, taken, gifts = len(sizes) - 1, list(sizes), []
    for number, (inserted, give, events) in enumerate(stages):
        at = min(give, last)
        counted = None if inserted is None else min(inserted, at)
        if counted is not None:
            taken[counted] += events
        by = None if counted is None else 3 * (counted + 1)
        gifts.append(Gift(3 * (at + 1), 100 + number, events, by))
    return marks_of(taken), gifts


def pieces(found):
    return [piece for partition in found for piece in partition]


def holds(piece, before, after, event, stage):
    """Say whether a slice holds an event of a tick: of a stage, or of none."""
    return (
        piece.from_tick <= before.tick
        and after.tick <= piece.to_tick
        and (piece.low is None or piece.low <= event)
        and (piece.high is None or event < piece.high)
        and (piece.stages is None or stage in (piece.stages or (None,)))
    )


def weight(piece, sizes, marks, gifts):
    """Return about how many events a slice has: those that were not staged lie anywhere."""
    place = piece.from_tick // 3
    if piece.stages:
        return sum(gift.events for gift in gifts if gift.stage in piece.stages)
    if piece.low is None and piece.high is None and piece.stages is None:
        given = [gift for gift in gifts if piece.from_tick < gift.tick <= piece.to_tick]
        return sum(sizes[place : piece.to_tick // 3]) + sum(gift.events for gift in given)
    first, end = marks[place].seq + 1, marks[place + 1].seq + 1
    ids = (piece.high or end) - (piece.low or first)
    return sizes[place] * ids / (end - first) if sizes[place] else 0


@given(sizes, st.integers(1, 12), stages)
def test_every_event_is_in_exactly_one_partition(sizes, least, stages):
    marks, gifts = history(sizes, stages)
    cut = pieces(partitions(marks, least, gifts))
    for before, after in pairwise(marks):
        mine = [gift.stage for gift in gifts if gift.tick == after.tick]
        # an event of this tick with any id, those that the sequence does not promise too
        for event in (0, before.seq, before.seq + 1, after.seq, after.seq + 1, 10**9):
            for stage in (None, *mine):
                assert sum(holds(piece, before, after, event, stage) for piece in cut) == 1


@given(sizes, st.integers(1, 12), stages)
def test_a_slice_names_stages_of_its_own_tick_only(sizes, least, stages):
    marks, gifts = history(sizes, stages)
    tick_of = {gift.stage: gift.tick for gift in gifts}
    for piece in pieces(partitions(marks, least, gifts)):
        named = piece.stages or ()
        assert {tick_of[stage] for stage in named} <= {piece.to_tick}
        assert len(named) == len(set(named))


@given(sizes, st.integers(1, 12), stages)
def test_no_partition_is_empty_or_much_larger_than_its_share(sizes, least, stages):
    marks, gifts = history(sizes, stages)
    total = sum(sizes) + sum(gift.events for gift in gifts)
    share = total / max(1, min(least, total))
    whole = max((gift.events for gift in gifts), default=0)  # a stage is not cut
    found = partitions(marks, least, gifts)
    for partition in found:
        events = sum(weight(piece, sizes, marks, gifts) for piece in partition)
        assert events <= share * (1 + 2 * splitting.SNAP) + whole + 2
        assert events > 0 or len(found) == 1


def test_ticks_of_equal_size_are_cut_at_ticks():
    assert partitions(marks_of([100] * 4), 2) == [(Slice(0, 6),), (Slice(6, 12),)]


def test_one_huge_tick_is_cut_by_ids_with_open_ends():
    found = partitions([Mark(1, 0), Mark(2, 1000)], 4)
    assert found == [
        (Slice(1, 2, None, 251),),
        (Slice(1, 2, 251, 501),),
        (Slice(1, 2, 501, 751),),
        (Slice(1, 2, 751, None),),
    ]


def test_a_huge_tick_among_small_ones_shares_its_partitions_with_them():
    marks = [Mark(1, 0), Mark(2, 100), Mark(3, 1100), Mark(4, 1200)]
    assert partitions(marks, 2) == [
        (Slice(1, 2), Slice(2, 3, None, 601)),
        (Slice(2, 3, 601, None), Slice(3, 4)),
    ]


def test_stages_of_one_tick_are_shared_out_and_their_ids_count_where_they_are_given():
    marks = [Mark(1, 0), Mark(2, 500), Mark(3, 1000), Mark(4, 1001)]
    gifts = [Gift(4, stage, 250, 3) for stage in (7, 8, 9, 10)]
    assert partitions(marks, 2, gifts) == [
        (Slice(1, 3), Slice(3, 4, stages=()), Slice(3, 4, stages=(7, 8))),
        (Slice(3, 4, stages=(9, 10)),),
    ]


def test_a_tick_with_stages_that_is_read_by_one_task_is_read_whole():
    marks = [Mark(1, 0), Mark(2, 10), Mark(3, 20)]
    assert partitions(marks, 1, [Gift(2, 7, 5, 2), Gift(3, 8, 5, None)]) == [(Slice(1, 3),)]


def test_a_stage_larger_than_its_share_stays_whole():
    found = partitions([Mark(1, 0), Mark(2, 1000)], 4, [Gift(2, 7, 900, 2)])
    assert found == [(Slice(1, 2, stages=()),), (Slice(1, 2, stages=(7,)),)]


def test_ids_of_staged_events_are_taken_from_the_newest_ticks():
    marks = [Mark(1, 0), Mark(2, 1000), Mark(3, 1500), Mark(4, 2000)]
    assert partitions(marks, 2, [Gift(4, 7, 1000, 4)]) == [(Slice(1, 2),), (Slice(2, 4),)]


def test_ids_that_were_staged_before_the_range_are_not_taken_from_it():
    marks = [Mark(1, 5000), Mark(2, 6000)]
    assert partitions(marks, 2, [Gift(2, 7, 1000, None)]) == [
        (Slice(1, 2, stages=()),),
        (Slice(1, 2, stages=(7,)),),
    ]


def test_without_a_wish_partitions_hold_half_a_million_events():
    assert len(partitions([Mark(1, 0), Mark(2, 1_600_000)])) == 4
    assert len(partitions([Mark(1, 0), Mark(2, 400_000)])) == 1


def test_a_range_that_promises_nothing_is_read_all_the_same():
    assert partitions([Mark(1, 5), Mark(2, 5)], 8) == [(Slice(1, 2),)]
    assert partitions([Mark(1, 5), Mark(2, 0), Mark(3, 0)], 8) == [(Slice(1, 3),)]


def test_a_sequence_that_ran_backwards_and_goes_on_is_read_all_the_same():
    found = partitions([Mark(1, 5), Mark(2, 0), Mark(3, 2)], 8)
    assert found == [(Slice(1, 2), Slice(2, 3, None, 2)), (Slice(2, 3, 2, None),)]


def test_an_empty_range_has_no_partition():
    assert partitions([Mark(1, 5)], 8) == []
    assert partitions([], 8) == []
