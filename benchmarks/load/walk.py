"""A loop over all batches of a backlog, by the client (a process of its own)."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import NamedTuple

import pgqpy


class Walked(NamedTuple):
    """The events that were read, and the seconds of each cycle."""

    events: int
    ids: int  # their sum
    cycles: list[float]
    peak: float  # MB


def cycle(client: pgqpy.Client, queue: str, name: str) -> tuple[int, int] | None:
    """Take a batch, read it, finish it; return count and sum of ids, None if there was none."""
    batch = client.next_batch(queue, name)
    if batch is None:
        return None
    count = total = 0
    for event in client.get_batch_events(batch):
        count += 1
        total += event.id
    client.finish_batch(batch)
    return count, total


def peak() -> float:
    """Return the peak of this process's resident memory in MB, the interpreter included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def walk(dsn: str, queue: str, name: str) -> Walked:
    """Read until there is no further batch."""
    count = total = 0
    cycles: list[float] = []
    with pgqpy.connect(dsn) as client:
        while True:
            start = time.perf_counter()
            found = cycle(client, queue, name)
            if found is None:
                return Walked(count, total, cycles, peak())
            cycles.append(time.perf_counter() - start)
            count, total = count + found[0], total + found[1]


if __name__ == "__main__":
    json.dump(walk(*sys.argv[1:4]), sys.stdout)
