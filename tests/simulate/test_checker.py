"""The checker sees each promise that is broken, and nothing where all are kept."""

from __future__ import annotations

from typing import Any

import pytest

from pgqpy.simulate.checker import ALONE, FILTER, LOST, ORDER, PHANTOM, TWICE, check, redelivered
from pgqpy.simulate.history import Content, History, Stored


class Story:
    """A history made by hand: each call is the next moment."""

    def __init__(self, *, ordered: bool = True) -> None:
        self.history = History(ordered=ordered)
        self.clock = 0

    def insert(
        self, *events: int, key: str = "a", tick: int | None = 1, outcome: str = "commit"
    ) -> None:
        """Insert events of a key; a tick shows them (None: no tick does)."""
        for event in events:
            self.add("insert", event=event, **fields(event, key))
            if tick is not None:
                self.history.stored.append(Stored(tick, event, content(event, key)))
        if outcome:
            self.add(outcome, events=list(events))

    def begin(self, event: int, *, run: int = 0, retry: int | None = None, key: str = "a") -> None:
        self.add("begin", run=run, event=event, retry=retry, **fields(event, key))

    def end(self, event: int, *, run: int = 0, ok: bool = True) -> None:
        self.add("end", run=run, event=event, ok=ok)

    def handle(self, event: int, *, ok: bool = True, run: int = 0, **more: Any) -> None:
        self.begin(event, run=run, **more)
        self.end(event, run=run, ok=ok)

    def add(self, do: str, **line: Any) -> None:
        self.clock += 1
        self.history.add([{"at": self.clock, "do": do, **line}])

    def broken(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the promises that the checker finds broken, with the events concerned."""
        self.history.close()
        return [(found.promise, found.events) for found in check(self.history)]


def fields(event: int, key: str) -> dict[str, Any]:
    return {"number": event, "key": key, "type": "paid"}


def content(event: int, key: str = "a") -> Content:
    return Content(**fields(event, key))


@pytest.fixture
def story() -> Story:
    """Three events of one key, in two ticks; the first was handled."""
    story = Story()
    story.insert(1, 2)
    story.insert(3, tick=2)
    story.handle(1)
    return story


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


def test_an_event_whose_handler_only_failed_is_lost_unless_it_was_given_up(story: Story) -> None:
    story.handle(2, ok=False)
    story.handle(3)
    assert story.broken() == [(LOST, (2,))]
    story.history.dead = {2}
    assert story.broken() == []


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
    story: Story, parks: bool, found: list[Any]
) -> None:
    story.history.parks = parks
    story.handle(2, ok=False)
    story.handle(3)
    story.handle(2, retry=1)
    assert story.broken() == found


def test_with_park_an_event_follows_one_that_was_given_up(story: Story) -> None:
    story.history.parks = True
    story.handle(2, ok=False)
    story.handle(2, ok=False, retry=1)
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
