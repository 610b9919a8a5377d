"""Consumers with lanes: events with keys, and whether each key's were handled in order."""

from __future__ import annotations

from collections import defaultdict

from tests.consumers.harness import CONSUMER, QUEUE, private

KEYS = [f"key{number}" for number in range(12)]
LANES = {"lanes": 4, "key": "extra1"}
NAMES = """
    select co_name from pgq.current_position join pgq.consumer on co_id = sub_consumer
     where sub_mode = 'lane' order by length(co_name), co_name
"""


def insert(queue, numbers, keys=KEYS):
    """Insert an event of each key for each number, with a tick for each number; the payloads."""
    datas = []
    for number in numbers:
        events = [("test", f"{key}:{number:04}", key) for key in keys]
        queue.client.insert_events(QUEUE, events)
        queue.tick()
        datas += [data for _, data, _ in events]
    return datas


def in_order(datas):
    """Whether the events of each key come in the order of their numbers, none twice."""
    by_key = defaultdict(list)
    for data in datas:
        key, number = data.split(":")
        by_key[key].append(number)
    return all(numbers == sorted(set(numbers)) for numbers in by_key.values())


def lanes(connection):
    """The names of the lanes."""
    return [name.removeprefix(f"{CONSUMER}.") for (name,) in connection.execute(NAMES)]


def works(running):
    """Whether a run looks for batches."""
    return private(running.consumer, "worked")
