"""The checker sees each promise that is broken, and nothing where all are kept."""

from __future__ import annotations

import pytest

from pgqpy.simulate.checker import ALONE, FILTER, LOST, ORDER, PHANTOM, TWICE, Stored, redelivered
from pgqpy.simulate.options import MAX_RETRIES, PART_SIZE
from tests.simulate.story import Story, content


def test_a_history_that_keeps_all_promises_passes(story: Story) -> None:
    story.insert(4, tick=None, outcome="rollback")
    story.begin(2)
    story.add("kill", run=0)
    story.handle(1, run=1)
    story.handle(2, run=1, ok=False)
    story.handle(3, run=1)
    story.handle(2, run=1, retry=1)
    assert story.broken() == []
    assert redelivered(story.history) == 2


def test_an_event_that_was_not_handled_is_lost(story: Story) -> None:
    story.handle(2)
    assert story.broken() == [(LOST, (3,))]


def fail(story: Story, event: int, times: int) -> None:
    for retry in range(times):
        story.handle(event, ok=False, retry=retry or None)


def test_an_event_whose_handler_only_failed_is_lost_unless_it_was_given_up(story: Story) -> None:
    fail(story, 2, MAX_RETRIES + 1)
    story.handle(3)
    assert story.broken() == [(LOST, (2,))]
    story.history.dead = {2}
    assert story.broken() == []


@pytest.mark.parametrize("failures", [0, 1, MAX_RETRIES])
def test_an_event_that_was_given_up_too_early_is_lost(story: Story, failures: int) -> None:
    fail(story, 2, failures)
    story.handle(3)
    story.history.dead = {2}
    assert story.broken() == [(LOST, (2,))]


def test_an_event_that_is_retried_too_often_is_seen(story: Story) -> None:
    fail(story, 2, MAX_RETRIES + 1)
    story.handle(2, retry=MAX_RETRIES + 1)
    story.handle(3)
    assert story.broken() == [(TWICE, (2,))]


def test_what_a_worker_did_between_its_kill_and_its_death_may_come_again(story: Story) -> None:
    story.begin(2)
    story.add("kill", run=0)  # it is written before the process is dead
    story.end(2)
    story.begin(3)
    for event in (2, 3):
        story.handle(event, run=1)
    assert story.broken() == []
    assert redelivered(story.history) == 2


def test_an_event_is_awaited_until_a_handler_ends_well(story: Story) -> None:
    story.handle(1)
    story.handle(2, ok=False)
    story.begin(3)  # cut off, or still running
    assert story.history.unfinished() == {2, 3}
    story.handle(2, retry=1)
    story.end(3)
    assert story.history.unfinished() == set()


def test_a_kill_excuses_no_event_of_a_part_that_was_finished(story: Story) -> None:
    more = range(4, 4 + PART_SIZE)
    story.insert(*more, tick=2)
    for event in (2, 3, *more):
        story.handle(event)
    story.add("kill", run=0)
    for event in (1, 2, *more[-PART_SIZE:]):
        story.handle(event, run=1)
    assert story.broken() == [(TWICE, (1,)), (TWICE, (2,))]


def test_an_event_that_comes_again_behind_a_later_one_of_another_run_is_seen(story: Story) -> None:
    story.add("kill", run=0)
    story.handle(2, run=1)
    story.handle(1, run=2)
    story.handle(3, run=2)
    assert story.broken() == [(ORDER, (1, 2))]


def test_a_committed_event_that_no_tick_shows_is_lost(story: Story) -> None:
    story.handle(2)
    story.handle(3)
    story.history.stored.pop()
    assert story.broken() == [(LOST, (3,)), (PHANTOM, (3,))]


@pytest.mark.parametrize("handled", [True, False])
def test_an_event_of_a_rollback_is_seen(story: Story, handled: bool) -> None:
    story.handle(2)
    story.handle(3)
    story.insert(4, tick=None if handled else 2, outcome="rollback")
    story.handle(4)
    assert story.broken() == [(PHANTOM, (4,))]


def test_an_event_that_nobody_inserted_is_seen(story: Story) -> None:
    story.handle(2)
    story.handle(3)
    story.history.stored.append(Stored(2, 9, content(9)))
    story.handle(9)
    assert story.broken() == [(PHANTOM, (9,))]


def test_an_event_with_another_content_is_seen(story: Story) -> None:
    story.handle(2)
    story.handle(3, key="b")
    assert story.broken() == [(LOST, (3,))]


def test_an_event_that_two_ranges_of_ticks_show_is_seen(story: Story) -> None:
    story.handle(2)
    story.handle(3)
    story.history.stored.append(Stored(3, 3, content(3)))
    assert (TWICE, (3,)) in story.broken()


def test_an_event_that_comes_again_without_a_kill_is_handled_twice(story: Story) -> None:
    story.handle(2)
    story.handle(2)
    story.handle(3)
    assert story.broken() == [(TWICE, (2,))]
    assert redelivered(story.history) == 0


def test_an_event_of_another_worker_that_was_killed_is_handled_twice(story: Story) -> None:
    story.handle(2)
    story.add("kill", run=7)
    story.handle(2, run=1)
    story.handle(3, run=1)
    assert story.broken() == [(TWICE, (2,))]


def test_an_event_that_was_handled_and_is_retried_is_handled_twice(story: Story) -> None:
    story.handle(2)
    story.handle(2, retry=1)
    story.handle(3)
    assert story.broken() == [(TWICE, (2,))]


def test_an_event_that_failed_and_comes_again_as_if_new_is_handled_twice(story: Story) -> None:
    story.handle(2, ok=False)
    story.handle(2)
    story.handle(3)
    assert story.broken() == [(TWICE, (2,))]


def test_an_event_that_two_workers_handle_at_the_same_time_is_seen() -> None:
    story = Story(ordered=False)
    story.insert(1)
    story.begin(1)
    story.begin(1, run=1)
    story.end(1)
    story.end(1, run=1)
    assert story.broken() == [(TWICE, (1,))]


def test_a_worker_that_lost_its_session_may_handle_an_event_again(story: Story) -> None:
    story.handle(2)
    story.add("lost", run=0)
    story.handle(2)
    story.handle(3)
    assert story.broken() == []


def test_events_of_a_key_in_another_order_are_seen(story: Story) -> None:
    story.handle(3)
    story.handle(2)
    assert story.broken() == [(ORDER, (2, 3))]


def test_events_of_a_key_in_another_order_after_a_kill_are_seen(story: Story) -> None:
    story.handle(2)
    story.add("kill", run=0)
    story.handle(2, run=1)
    story.handle(1, run=1)
    story.handle(3, run=1)
    assert story.broken() == [(ORDER, (1, 2))]


def test_an_event_that_is_handled_before_one_that_a_kill_cut_off_is_seen(story: Story) -> None:
    story.begin(2)
    story.add("kill", run=0)
    story.handle(3, run=1)
    story.handle(2, run=1)
    assert story.broken() == [(ORDER, (2, 3))]


def test_events_of_transactions_that_overlapped_may_have_either_order() -> None:
    for order in ((4, 5), (5, 4)):
        story = Story()
        story.insert(5, tick=1)
        story.insert(4, tick=2)  # its transaction began first, and committed last
        for event in order:
            story.handle(event)
        assert story.broken() == []


def test_events_of_different_keys_have_no_order(story: Story) -> None:
    story.insert(4, key="b")
    story.handle(2)
    story.begin(3)
    story.begin(4, key="b")
    story.end(4)
    story.end(3)
    assert story.broken() == []


def test_two_events_of_a_key_at_the_same_time_are_seen(story: Story) -> None:
    story.begin(2)
    story.begin(3)
    story.end(2)
    story.end(3)
    assert (ALONE, (2, 3)) in story.broken()


def test_a_retried_event_may_come_late_but_not_beside_another_of_its_key(story: Story) -> None:
    story.handle(2, ok=False)
    story.begin(3)
    story.begin(2, retry=1)
    story.end(3)
    story.end(2)
    assert story.broken() == [(ALONE, (3, 2))]


@pytest.mark.parametrize(("parks", "found"), [(False, []), (True, [(ORDER, (2, 3))])])
def test_with_park_an_event_waits_until_one_that_failed_is_handled(
    story: Story, parks: bool, found: list[tuple[str, tuple[int, ...]]]
) -> None:
    story.history.parks = parks
    story.handle(2, ok=False)
    story.handle(3)
    story.handle(2, retry=1)
    assert story.broken() == found


def test_with_park_an_event_follows_one_that_was_given_up(story: Story) -> None:
    story.history.parks = True
    fail(story, 2, MAX_RETRIES + 1)
    story.history.dead.add(2)
    story.handle(3)
    assert story.broken() == []


def test_a_shared_consumer_promises_no_order() -> None:
    story = Story(ordered=False)
    story.insert(1, 2)
    story.begin(2)
    story.begin(1, run=1)
    story.end(1, run=1)
    story.end(2)
    assert story.broken() == []


def test_what_was_not_handled_before_an_early_stop_is_not_judged(story: Story) -> None:
    story.history.complete = False
    story.handle(2)
    story.handle(2)
    assert story.broken() == [(TWICE, (2,))]


def test_with_types_only_events_of_these_have_to_be_handled(story: Story) -> None:
    story.history.types = ("s*", "sold")
    assert story.broken() == [(FILTER, (1,))]
    story.history.types = ("s*", "paid")
    assert story.broken() == [(LOST, (2,)), (LOST, (3,))]
