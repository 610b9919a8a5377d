"""Lanes in random stories: nothing lost, nothing twice, and each key in its order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.lanes import SET
from tests.guarantees.lanes_story import LEFT, Story

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


@pytest.mark.parametrize("seed", range(2))
def test_first_deliveries_of_a_key_are_finished_in_order_and_once(db: Database, seed: int) -> None:
    db.queue()
    db.main.one(SET, 3, "extra1")
    story = Story(db, seed)
    for _ in range(500):
        story.step()
    story.end()
    events = [each.event for each in story.finished]
    first = [event for event in events if event.txid == story.txids[event.id]]
    assert sorted(event.id for event in first) == sorted(story.committed)
    for key in {event.key for event in first} - {None}:
        places = [(event.until, event.id) for event in first if event.key == key]
        assert all(one < next_one for one, next_one in pairwise(places)), (key, places)
    assert all(event.after < story.ticks[event.id] <= event.until for event in first)
    last = {each.event.id: each.done for each in story.finished}
    assert all(last.values())
    assert story.main.one(LEFT) == 0
    assert len(story.committed) > 50
    assert len(first) < len(story.finished)
    assert story.changes >= 3
