"""Events of keys, a handler that fails at random, and the check of their order."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict


class Unlucky:
    """A handler that fails at random; it notes each attempt and how it ended.

    The data of an event is its key and a number, as in `a-3`; the numbers of a key count up.
    """

    def __init__(self, random, *, chance=0.2, max_retries=3):
        self.random = random
        self.chance = chance
        self.max_retries = max_retries
        self.attempts = []  # (data, whether it went well, retries before)
        self.running = set()
        self.lock = threading.Lock()

    def __call__(self, event):
        key = event.data.partition("-")[0]
        with self.lock:
            assert key not in self.running, f"two of {key} side by side"
            self.running.add(key)
        failed = self.random.random() < self.chance
        with self.lock:
            self.running.discard(key)
            self.attempts.append((event.data, not failed, event.retry or 0))
        if failed:
            raise ValueError(event.data)

    @property
    def done(self):
        """How often each event was handled to its end; dead ones count too."""
        return Counter(
            data for data, well, retries in self.attempts if well or retries >= self.max_retries
        )

    def check(self):
        """No event was handled before all earlier ones of its key were done or dead."""
        finished: dict[str, int] = defaultdict(int)  # the highest number of each key
        for data, well, retries in self.attempts:
            key, _, number = data.partition("-")
            assert int(number) <= finished[key] + 1, f"{data} before {key}-{finished[key] + 1}"
            if well or retries >= self.max_retries:
                finished[key] = max(finished[key], int(number))


def insert_keyed(queue, *datas):
    """Insert events with their key in extra1, as one batch; of `a-1` it is `a`."""
    for data in datas:
        key = data.partition("-")[0]
        queue.client.insert_event(queue.name, "test", data, extra1=None if key == "none" else key)
    queue.tick()


def parked(queue):
    """Return the data of the parked events, by key and in their order."""
    rows = queue.client.connection.execute(
        "select ev_data from pgq.parked order by park_key, park_no"
    )
    return [row[0] for row in rows]


def park_now(queue):
    """Let the parked events be due now."""
    queue.client.connection.execute("select pgq.retry_parked(%s, 'billing')", [queue.name])
