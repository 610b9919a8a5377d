"""Decisions of the tick loop, without I/O: last ticks, ranges, back-off, intervals."""

from __future__ import annotations

import pytest

from pgqpy.ticker.loop import next_poll_interval
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.tick import (
    BUSY_RANGES,
    FEW_QUEUES,
    HOT_FOR,
    HOT_QUEUES,
    NO_SNAPSHOT,
    RANGES,
    Backoff,
    LastTicks,
    TickState,
)


def everything(last_ticks):
    """Return what is known of few queues."""
    selection = last_ticks.all_queues()
    assert selection is not None
    return selection


def ranges(last_ticks):
    """Return the known queues, by range, of one round."""
    last_ticks.make_stale()
    return [last_ticks.next_range().selection().queue_ids for _ in range(last_ticks.stale)]


def test_the_last_tick_and_its_open_writers_are_known_until_it_is_forgotten():
    last_ticks = LastTicks()
    last_ticks.put(1, b"5", b"3/4 -1/9")
    last_ticks.put(1, b"7", None)
    last_ticks.put(12, b"1", b"3/4 -1/9")
    selection = everything(last_ticks)
    assert selection.queue_ids == b"{1,12}"
    assert selection.seqs == b"{7,1}"
    assert selection.writers == b'{NULL,"3/4 -1/9"}'
    for queue in (1, 12, 99):
        last_ticks.forget(queue)
    assert everything(last_ticks).queue_ids == b"{}"


def test_a_selection_covers_its_queues_and_no_others():
    last_ticks = LastTicks()
    last_ticks.put(2, b"5", None)
    selection = last_ticks.select([2, 7])
    assert (selection.listed, selection.queue_ids, selection.seqs) == (b"{2,7}", b"{2}", b"{5}")
    assert [number for number in range(-9, 99) if selection.covers(number)] == [2, 7]
    assert not any(last_ticks.select([]).covers(number) for number in range(-9, 99))


def test_many_queues_are_no_longer_polled_together():
    last_ticks = LastTicks()
    for number in range(FEW_QUEUES + 1):
        assert last_ticks.all_queues() is not None
        last_ticks.put(number, b"5", None)
    assert last_ticks.all_queues() is None


def test_ranges_cover_every_id_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.tick.RANGE_SIZE", 2)
    last_ticks = LastTicks([3, 4, 8, 9, 10])
    ranges = [(int(first), int(last)) for first, last in last_ticks.bounds()]
    assert ranges == [(-(2**31), 7), (8, 9), (10, 2**31 - 1)]


def test_a_round_includes_every_range_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.tick.RANGE_SIZE", 2)
    last_ticks = LastTicks([1, 2, 3, 4, 5])
    for number in range(1, 6):
        last_ticks.put(number, b"0", None)
    assert sorted(ranges(last_ticks)) == [b"{1,2}", b"{3,4}", b"{5}"]
    assert last_ticks.stale == 0


def test_a_range_that_has_grown_is_divided(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.tick.RANGE_SIZE", 2)
    last_ticks = LastTicks()
    for number in (5, 3, 1, 2, 4):
        last_ticks.put(number, b"0", None)
    assert sorted(ranges(last_ticks)) == [b"{1,2}", b"{3,4,5}"]
    last_ticks.forget(4)
    last_ticks.put(6, b"0", None)
    assert sorted(ranges(last_ticks)) == [b"{1,2}", b"{3,5,6}"]


def test_pauses_get_longer_with_every_failure():
    backoff = Backoff()
    for times, pause in enumerate([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0], start=1):
        assert backoff.failed("a", now=0.0) == times
        assert backoff.pausing("a", now=pause - 0.01)
        assert not backoff.pausing("a", now=pause)


def test_success_ends_a_row_of_failures():
    backoff = Backoff()
    backoff.failed("a", now=0.0)
    backoff.failed("a", now=0.0)
    assert list(backoff) == ["a"]
    assert backoff.succeeded("a") == 2
    assert backoff.succeeded("a") == 0
    assert not backoff


def test_known_snapshot_is_ignored_when_a_failed_queue_is_due():
    state = TickState(snapshot=b"5:5:")
    assert state.known_snapshot(now=0.0) == b"5:5:"
    state.failing.failed("a", now=0.0)
    assert state.known_snapshot(now=0.0) == b"5:5:"
    assert state.known_snapshot(now=60.0) == NO_SNAPSHOT


SETTINGS = TickerSettings(tick_interval=0.004, poll_interval=0.002, idle_poll_interval=0.05)


@pytest.mark.parametrize(
    ("quiet", "took", "expected"),
    [
        (0.0, 0.0005, 0.004),  # this poll ticked
        (0.1, 0.0005, 0.002),  # events come in
        (2.0, 0.0005, 0.02),  # a hundredth of the silence
        (3600.0, 0.0005, 0.05),  # and no more than this
        (0.1, 0.01, 0.02),  # a slow server is left alone for half of the time
        (3600.0, 1.0, 2.0),
    ],
)
def test_polls_get_rarer_with_silence_and_with_cost(quiet, took, expected):
    assert next_poll_interval(quiet, took, settings=SETTINGS) == pytest.approx(expected)


def test_remaining_ranges_are_polled_soon_in_a_silence():
    for quiet, took, expected in (
        (3600.0, 0.0005, SETTINGS.poll_interval),
        (0.0, 0.0005, SETTINGS.tick_interval),
        (3600.0, 0.01, 0.02),
    ):
        assert next_poll_interval(quiet, took, settings=SETTINGS, more=True) == expected


def stale(ranges):
    state = TickState(LastTicks(range(256 * ranges)))
    state.last_ticks.make_stale()
    return state


def test_all_ranges_are_polled_once_in_a_round_a_few_in_each_poll():
    assert len(list(stale(40).next_ranges(now=100.0))) == RANGES
    state = stale(4)
    assert len(list(state.next_ranges(now=100.0))) == 4
    assert list(state.next_ranges(now=200.0)) == []


def test_a_poll_that_events_wait_for_includes_fewer_ranges():
    state = stale(4)
    state.ticked(1, now=100.0)
    assert len(list(state.next_ranges(now=100.0))) == BUSY_RANGES < RANGES
    assert len(list(state.next_ranges(now=100.0))) == 4 - BUSY_RANGES


def test_a_range_knows_which_queues_have_open_writers():
    last_ticks = LastTicks()
    last_ticks.put(1, b"5", b"3/4")
    last_ticks.put(2, b"5", None)
    assert last_ticks.next_range().waiting == {1}
    last_ticks.put(1, b"5", None)
    last_ticks.forget(2)
    assert last_ticks.next_range().waiting == set()


def test_queues_are_hot_for_a_while_after_their_last_tick():
    state = TickState()
    state.ticked(1, now=10.0)
    state.ticked(2, now=11.0)
    state.ticked(1, now=11.5)
    assert state.hot_ids(now=11.5) == [2, 1]
    assert state.hot_ids(now=11.0 + HOT_FOR) == [1]
    assert state.hot_ids(now=99.0) == []


def test_number_of_hot_queues_is_bounded_and_keeps_the_latest():
    state = TickState()
    for number in range(HOT_QUEUES + 5):
        state.ticked(number, now=1.0)
    assert state.hot_ids(now=1.0) == list(range(5, HOT_QUEUES + 5))


def test_failed_queue_is_polled_again_after_its_pause():
    state = TickState()
    assert state.failed("a", 7, now=0.0) == 1
    assert state.hot_ids(now=0.0) == []
    assert state.hot_ids(now=60.0) == [7]
    assert state.succeeded("a") == 1
    assert state.hot_ids(now=60.0) == []


def test_idle_interval_is_never_shorter_than_the_busy_one():
    settings = TickerSettings(poll_interval=0.2, idle_poll_interval=0.05)
    assert next_poll_interval(100.0, 0.0, settings=settings) == 0.2
