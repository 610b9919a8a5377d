"""What decides without I/O: memory, back-off, intervals."""

from __future__ import annotations

import pytest

from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.state import (
    BUSY_SLICES,
    HOT_FOR,
    HOT_QUEUES,
    ROUND,
    SLICES,
    UNKNOWN,
    Pace,
    TickState,
    look_interval,
)
from pgqpy.ticker.watch import FEW, Watch


def everything(watch):
    """Return what is known of few queues."""
    part = watch.everything()
    assert part is not None
    return part


def slices(watch):
    """Return the known queues, slice by slice, of one round."""
    watch.written()
    return [watch.next().part().queue_ids for _ in range(watch.stale)]


def test_watch_starts_with_nothing_known():
    part = everything(Watch())
    assert (part.queue_ids, part.seqs, part.writers) == (b"{}", b"{}", b"{}")
    assert part.covers(1)


def test_watch_remembers_the_last_tick_and_its_open_writers():
    watch = Watch()
    watch.ticked(1, b"5", b"3/4 -1/9")
    watch.ticked(1, b"7", None)
    watch.ticked(12, b"1", b"3/4 -1/9")
    part = everything(watch)
    assert part.queue_ids == b"{1,12}"
    assert part.seqs == b"{7,1}"
    assert part.writers == b'{NULL,"3/4 -1/9"}'


def test_watch_forgets_a_queue_that_is_gone():
    watch = Watch()
    watch.ticked(1, b"5", None)
    watch.forget(1)
    watch.forget(99)
    assert everything(watch).queue_ids == b"{}"


def test_chosen_queues_are_covered_and_no_others():
    watch = Watch()
    watch.ticked(2, b"5", None)
    part = watch.chosen([2, 7])
    assert (part.listed, part.queue_ids, part.seqs) == (b"{2,7}", b"{2}", b"{5}")
    assert [number for number in range(-9, 99) if part.covers(number)] == [2, 7]
    assert not any(watch.chosen([]).covers(number) for number in range(-9, 99))


def test_many_queues_are_no_longer_looked_at_together():
    watch = Watch()
    for number in range(FEW + 1):
        assert watch.everything() is not None
        watch.ticked(number, b"5", None)
    assert watch.everything() is None


def test_slices_cover_every_id_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch([3, 4, 8, 9, 10])
    ranges = [(int(first), int(last)) for first, last in watch.ranges()]
    assert ranges == [(-(2**31), 7), (8, 9), (10, 2**31 - 1)]


def test_round_goes_to_every_slice_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch([1, 2, 3, 4, 5])
    for number in range(1, 6):
        watch.ticked(number, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,4}", b"{5}"]
    assert watch.stale == 0


def test_slice_that_has_grown_is_divided(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch()
    for number in (5, 3, 1, 2, 4):
        watch.ticked(number, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,4,5}"]
    watch.forget(4)
    watch.ticked(6, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,5,6}"]


def test_what_fails_is_left_alone_for_longer_and_longer():
    backoff = Backoff(first=0.1, longest=1.0)
    for times, pause in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], start=1):
        assert backoff.failed("a", now=0.0) == times
        assert backoff.pausing("a", now=pause - 0.01)
        assert not backoff.pausing("a", now=pause)


def test_pause_does_not_overflow():
    backoff = Backoff(first=0.1, longest=1.0)
    for _ in range(5000):
        backoff.failed("a", now=0.0)
    assert not backoff.pausing("a", now=1.0)


def test_what_fails_is_tried_again_after_its_pause():
    backoff = Backoff(first=0.1, longest=1.0)
    backoff.failed("a", now=10.0)
    assert backoff.pausing("a", now=10.05)
    assert not backoff.due(now=10.05)
    assert not backoff.pausing("a", now=10.1)
    assert backoff.due(now=10.1)
    assert not backoff.pausing("b", now=10.0)


def test_success_ends_a_row_of_failures():
    backoff = Backoff(first=0.1, longest=1.0)
    backoff.failed("a", now=0.0)
    backoff.failed("a", now=0.0)
    assert backoff.names() == ["a"]
    assert backoff.succeeded("a") == 2
    assert backoff.succeeded("a") == 0
    assert not backoff


def test_what_is_gone_does_not_fail_any_more():
    backoff = Backoff()
    backoff.failed("a", now=0.0)
    backoff.failed("b", now=0.0)
    backoff.keep(["b", "c"])
    assert backoff.names() == ["b"]


def test_known_snapshot_is_ignored_when_something_that_failed_is_due():
    state = TickState(snapshot=b"5:5:")
    assert state.known_snapshot(now=0.0) == b"5:5:"
    state.failing.failed("a", now=0.0)
    assert state.known_snapshot(now=0.0) == b"5:5:"
    assert state.known_snapshot(now=60.0) == UNKNOWN


PACE = Pace(tick=0.004, busy=0.002, idle=0.05)


@pytest.mark.parametrize(
    ("quiet", "took", "expected"),
    [
        (0.0, 0.0005, 0.004),  # this look ticked
        (0.1, 0.0005, 0.002),  # events come in
        (2.0, 0.0005, 0.02),  # a hundredth of the silence
        (3600.0, 0.0005, 0.05),  # and no more than this
        (0.1, 0.01, 0.02),  # a slow server is left alone for half of the time
        (3600.0, 1.0, 2.0),
    ],
)
def test_looks_get_rarer_with_silence_and_with_cost(quiet, took, expected):
    assert look_interval(quiet, took, pace=PACE) == pytest.approx(expected)


def test_what_is_left_to_look_at_does_not_wait_for_the_silence_to_end():
    assert look_interval(3600.0, 0.0005, pace=PACE, more=True) == PACE.busy
    assert look_interval(0.0, 0.0005, pace=PACE, more=True) == PACE.tick
    assert look_interval(3600.0, 0.01, pace=PACE, more=True) == 0.02


def stale(slices):
    state = TickState(Watch(range(256 * slices)))
    state.watch.written()
    return state


def test_all_slices_are_looked_at_once_in_a_round():
    state = stale(4)
    assert len(list(state.next_slices(now=100.0))) == 4
    assert list(state.next_slices(now=200.0)) == []


def test_next_round_begins_a_period_after_the_last():
    state = stale(4)
    assert len(list(state.next_slices(now=100.0))) == 4
    state.watch.written()
    assert list(state.next_slices(now=100.0)) == []
    assert len(list(state.next_slices(now=100.0 + ROUND / 2))) == 2
    assert len(list(state.next_slices(now=100.0 + ROUND))) == 2


def test_no_look_goes_to_more_than_a_few_slices():
    state = stale(40)
    assert len(list(state.next_slices(now=100.0))) == SLICES


def test_a_look_that_events_wait_for_goes_to_fewer_slices():
    state = stale(4)
    state.ticked(1, now=100.0)
    assert len(list(state.next_slices(now=100.0))) == BUSY_SLICES < SLICES
    assert len(list(state.next_slices(now=100.0))) == 4 - BUSY_SLICES


def test_slice_remembers_whom_it_waits_for():
    watch = Watch()
    watch.ticked(1, b"5", b"3/4")
    watch.ticked(2, b"5", None)
    assert watch.next().waiting == {1}
    watch.ticked(1, b"5", None)
    watch.forget(2)
    assert watch.next().waiting == set()


def test_queues_are_hot_for_a_while_after_their_last_tick():
    state = TickState()
    state.ticked(1, now=10.0)
    state.ticked(2, now=11.0)
    state.ticked(1, now=11.5)
    assert state.hot_ids(now=11.5) == [2, 1]
    assert state.hot_ids(now=11.0 + HOT_FOR) == [1]
    assert state.hot_ids(now=99.0) == []


def test_only_so_many_queues_are_hot_and_the_latest_are():
    state = TickState()
    for number in range(HOT_QUEUES + 5):
        state.ticked(number, now=1.0)
    assert state.hot_ids(now=1.0) == list(range(5, HOT_QUEUES + 5))


def test_what_failed_is_looked_at_again_after_its_pause():
    state = TickState()
    assert state.failed("a", 7, now=0.0) == 1
    assert state.hot_ids(now=0.0) == []
    assert state.hot_ids(now=60.0) == [7]
    assert state.succeeded("a") == 1
    assert state.hot_ids(now=60.0) == []


def test_idle_interval_is_never_shorter_than_the_busy_one():
    assert look_interval(100.0, 0.0, pace=Pace(tick=0.1, busy=0.2, idle=0.05)) == 0.2
