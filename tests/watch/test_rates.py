"""Rates, pauses and counts: pure functions."""

from __future__ import annotations

import pytest

from pgqpy.watch.snapshot import Count, total
from pgqpy.watch.watcher import Reached, SlowClock, pause_after, rates


def test_a_rate_is_the_ids_between_two_looks() -> None:
    before = Reached(10.0, {("orders",): 100, ("orders", "billing"): 40, ("dropped",): 1})
    now = Reached(12.0, {("orders",): 300, ("orders", "billing"): 40, ("new",): 5})
    assert rates(before, now) == {("orders",): 100.0, ("orders", "billing"): 0.0}


def test_there_is_no_rate_at_the_first_look_nor_for_ids_that_went_back() -> None:
    now = Reached(12.0, {("orders",): 300})
    assert rates(None, now) == {}
    assert rates(now, now) == {}
    assert rates(Reached(11.0, {("orders",): 301}), now) == {}


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.01, 1.0), (0.1, 7.5)])
def test_a_look_that_takes_long_is_followed_by_a_long_pause(took: float, pause: float) -> None:
    assert pause_after(took) == pytest.approx(pause)


@pytest.mark.parametrize(("took", "due"), [(0.0, 71.0), (0.5, 161.5)])
def test_an_expensive_part_has_a_slower_clock(took: float, due: float) -> None:
    clock = SlowClock(60.0)
    assert clock.is_due(11.0)
    clock.done(11.0, 11.0 + took)
    assert not clock.is_due(due - 0.1)
    assert clock.is_due(due)


def test_no_more_than_two_percent_of_a_core_by_construction() -> None:
    polls, slow = 1.0 / pause_after(1.0), SlowClock(0.0)
    slow.done(0.0, 1.0)
    assert not slow.is_due(300.0)
    assert polls + 2 / 300 <= 0.02


def test_a_count_that_stopped_at_its_limit_says_so() -> None:
    assert str(Count.up_to(9_999)) == "9,999"
    assert str(Count.up_to(10_000)) == "10,000+"
    assert str(total([Count.up_to(10_000), Count(5)])) == "10,005+"
    assert total([Count(1), None]) is None
    assert not Count(0)
