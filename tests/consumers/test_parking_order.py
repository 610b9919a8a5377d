"""Batches of parked events, whose order is not that of their ids, and which end early.

A key's events stand together in such a batch, so their ids go up and down. The batch is read in
lists smaller than itself, by a run with a lane and a lease, directly and through a pool.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from pgqpy.calls.consume import finish_batch
from pgqpy.calls.parked import MOST_TAKEN, event_park, take_parked
from pgqpy.consumers import crash
from pgqpy.records import Failure
from tests.consumers.harness import CONSUMER, NOTE
from tests.consumers.keyed import insert_keyed, park_now, parked
from tests.consumers.test_leases import make
from tests.consumers.workers import ENDED, taken
from tests.support.waiting import eventually

__all__ = ["make"]  # the fixture: direct, and through a pool

PARK = {"on_error": "park", "key": "extra1", "lanes": 1, "lease": 3600}
KEYS, LENGTH = "abcde", 9
WANTED = [f"{key}-{number}" for number in range(1, LENGTH + 1) for key in KEYS]
WHOLE = {"part_size": 10_000, "concurrency": 1}
SHAPES: dict[str, dict[str, int]] = {
    "lists": {"part_size": 4},
    "concurrency": {"part_size": 8, "concurrency": 4},
    "concurrency, parts": {"part_size": 3, "concurrency": 4},
    "transactional": {"part_size": 6, "transactional": True},
}
DYING = ["lists", "concurrency", "transactional"]
shapes = pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)


class Handler:
    """A handler whose first run parks all events; then it ends its run after some events."""

    def __init__(self, settings):
        self.settings = PARK | settings
        self.end = self.fail
        self.left = 0
        self.consumer: Any = None
        self.seen = []

    def fail(self):
        raise ValueError("the other system is down")

    def begin(self, make, end, left=0, **settings):
        """Start a run that calls `end` at each event after so many."""
        self.end, self.left = end, left
        handler = self.transactional if self.settings.get("transactional") else self
        self.consumer = make.consumer(handler, **(self.settings | settings))
        return make.run(self.consumer)

    def stop(self):
        self.consumer.stop()

    def __call__(self, event):
        self.left -= 1
        if self.left < 0:
            self.end()
        self.seen.append(event.data)

    def transactional(self, event):
        self(event)
        yield NOTE, [event.data]

    def check(self, effects):
        """Every event was handled, each key in order; once, where the transaction says so."""
        numbers = defaultdict(list)
        for data in dict.fromkeys(self.seen):
            numbers[data[0]].append(int(data[2:]))
        assert numbers == {key: [*range(1, LENGTH + 1)] for key in KEYS}
        if self.settings.get("transactional"):
            assert sorted(effects()) == sorted(WANTED)


@pytest.fixture
def handler(queue, make, settings):
    """A handler of a consumer whose events are all parked, in a batch larger than the lists."""
    found = Handler(settings)
    insert_keyed(queue, *WANTED)
    first = found.begin(make, found.fail, backoff=(3600.0, 3600.0))
    eventually(lambda: len(parked(queue)) == len(WANTED))
    eventually(lambda: taken(queue.client.connection) == [])
    first.stop()
    # The heads alone, and then all that stand behind them in one batch, which stays open.
    park_now(queue)
    found.begin(make, found.stop, len(KEYS) + 2, **WHOLE).join()
    assert len(found.seen) > len(KEYS)
    return found


@shapes
def test_parked_events_are_all_handled_in_order_whenever_the_run_stops(
    queue, make, effects, handler
):
    for left in (1, 4, 6, 8):
        handler.begin(make, handler.stop, left).join()
    handler.begin(make, None, 10**6)
    eventually(lambda: parked(queue) == [])
    handler.check(effects)


def die():
    raise SystemExit("killed")


@pytest.mark.parametrize("settings", [SHAPES[name] for name in DYING], ids=DYING)
def test_parked_events_are_all_handled_in_order_whenever_the_run_dies(
    queue, make, effects, handler, connection, monkeypatch
):
    monkeypatch.setattr(crash, "MAX_ATTEMPTS", 99)
    for left in (3, 12, 2, 5, 1):  # parts of 1,000 events, of 30, and of one
        with pytest.raises(SystemExit):
            handler.begin(make, die, left).join()
        connection.execute(ENDED)
    handler.begin(make, None, 10**6)
    eventually(lambda: parked(queue) == [])
    handler.check(effects)


def test_a_client_without_held_cursors_reads_parked_events_in_their_order(queue, client):
    insert_keyed(queue, *WANTED)
    batch = client.next_batch(queue.name, CONSUMER)
    events = list(client.get_batch_events(batch))
    rows = [(each, each.extra1, None, Failure()) for each in events]
    client.runner.run_all(event_park(batch, rows), finish_batch(batch))
    batch = client.call(take_parked(queue.name, CONSUMER, MOST_TAKEN))
    client.runner.holds_cursors = False
    lists = list(client.runner.fetch_batch_events(batch, 4))
    assert max(map(len, lists)) == 4
    assert [event.data for events in lists for event in events] == sorted(WANTED)
