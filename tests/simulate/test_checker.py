"""The checker sees each promise that is broken, and nothing where all are kept."""

from __future__ import annotations

import pytest

from pgqpy.simulate.checker import ALONE, LOST, ORDER, PHANTOM, TWICE, Stored, redelivered
from pgqpy.simulate.options import LIMIT, MAX_RETRIES
from tests.simulate.story import Story, content

FAILED = "2! 2!r1 2!r2 2!r3"  # the event 2 MAX_RETRIES + 1 times
# What happens after three events of one key were inserted and the first was handled.
FOUND = {
    "not handled": ("2", [(LOST, (3,))]),
    "its handler only failed": (f"{FAILED} 3", [(LOST, (2,))]),
    "begun or ended between a kill and the death": ("(2 kill0 2) (3 2@1 3@1", []),
    "other content": ("2 3b", [(LOST, (3,))]),
    "again without a kill": ("2 2 3", [(TWICE, (2,))]),
    "again after another worker was killed": ("2 kill7 2@1 3@1", [(TWICE, (2,))]),
    "handled and retried": ("2 2r1 3", [(TWICE, (2,))]),
    "failed and again as if new": ("2! 2 3", [(TWICE, (2,))]),
    "again by a worker that lost its session": ("2 lost0 2 3", []),
    "another order": ("3 2", [(ORDER, (2, 3))]),
    "before one that a kill cut off": ("(2 kill0 3@1 2@1", [(ORDER, (2, 3))]),
    "two of a key at the same time": ("(2 (3 2) 3)", [(ALONE, (2, 3)), (ORDER, (2, 3))]),
    "again after a kill, as a retry": ("(2 kill0 2r1@1 3@1", []),
    "again after kills of workers that had not begun it": ("(2 kill0 2r3@1 3@1", []),
    "before one that failed": ("2! 3 2r1", [(ORDER, (2, 3))]),
    "a retry beside another": ("2! (3 (2r1 3) 2)", [(ALONE, (3, 2)), (ORDER, (2, 3))]),
}


@pytest.fixture
def story() -> Story:
    """Three events of one key, in two transactions; the first was handled."""
    story = Story()
    story.insert(1, 2)
    story.insert(3)
    return story.play("1")


@pytest.mark.parametrize(("script", "found"), FOUND.values(), ids=FOUND)
def test_what_is_broken_is_found(
    story: Story, script: str, found: list[tuple[str, tuple[int, ...]]]
) -> None:
    assert set(story.play(script).broken()) == set(found)


def test_a_history_that_keeps_all_promises_passes(story: Story) -> None:
    story.insert(4, shown=False, outcome="rollback")
    story.play("(2 kill0 1@1 2!@1 2r1@1 3@1")
    assert story.broken() == []
    assert redelivered(story.history) == 2


def test_a_kill_counts_what_came_again_and_nothing_else_does(story: Story) -> None:
    assert story.play("2 2 3").broken() != []
    assert redelivered(story.history) == 0


@pytest.mark.parametrize("failures", range(MAX_RETRIES + 2))
def test_an_event_may_be_given_up_after_its_last_retry_only(story: Story, failures: int) -> None:
    story.play(" ".join([*FAILED.split()[:failures], "3"]))
    story.history.dead = {2}
    assert story.broken() == ([] if failures > MAX_RETRIES else [(LOST, (2,))])


def test_an_event_is_awaited_until_a_handler_ends_well(story: Story) -> None:
    story.play("1 2! (3")  # 3 is cut off, or still running
    assert story.history.unfinished() == {2, 3}
    story.play("2r1 3)")
    assert story.history.unfinished() == set()


def test_a_kill_excuses_no_event_of_a_claim_that_was_finished() -> None:
    story, events = Story(), range(1, 4 + LIMIT)
    story.insert(*events)
    for event in events:
        story.add("begin", run=0, retry=None, event=event, **content(event)._asdict())
        story.add("end", run=0, event=event, ok=True)
    story.add("kill", run=0)
    for event in (1, 2, *events[-LIMIT:]):
        story.add("begin", run=1, retry=None, event=event, **content(event)._asdict())
        story.add("end", run=1, event=event, ok=True)
    assert story.broken() == [(TWICE, (1,)), (TWICE, (2,))]


def test_a_committed_event_that_no_tick_shows_is_lost(story: Story) -> None:
    story.history.stored.pop()
    assert story.play("2 3").broken() == [(LOST, (3,)), (PHANTOM, (3,))]


@pytest.mark.parametrize("shown", [False, True])
def test_an_event_of_a_rollback_is_seen(story: Story, shown: bool) -> None:
    story.insert(4, shown=shown, outcome="rollback")
    assert story.play("2 3 4").broken() == [(PHANTOM, (4,))]


def test_an_event_that_nobody_inserted_is_seen(story: Story) -> None:
    story.history.stored.append(Stored(9, content(9)))
    assert story.play("2 3 9").broken() == [(PHANTOM, (9,))]


def test_an_event_that_two_ranges_of_ticks_show_is_seen(story: Story) -> None:
    story.history.stored.append(Stored(3, content(3)))
    assert (TWICE, (3,)) in story.play("2 3").broken()


@pytest.mark.parametrize("order", ["4 5", "5 4"])
def test_events_of_transactions_that_overlapped_may_have_either_order(order: str) -> None:
    story = Story()
    story.add("insert", event=4, **content(4)._asdict())
    story.insert(5)
    story.add("commit", events=[4])
    story.history.stored.append(Stored(4, content(4)))
    assert story.play(order).broken() == []


def test_events_of_one_transaction_have_an_order() -> None:
    story = Story()
    story.insert(1, 2)
    assert story.play("2 1").broken() == [(ORDER, (1, 2))]


def test_events_of_different_keys_have_no_order(story: Story) -> None:
    story.insert(4, key="b")
    assert story.play("2 (3 (4b 4) 3)").broken() == []


def test_an_event_follows_one_that_was_given_up(story: Story) -> None:
    story.history.dead.add(2)
    assert story.play(f"{FAILED} 3").broken() == []
