"""A producer of many events: a few hundred a transaction, at a steady rate."""

from __future__ import annotations

import json
import sys
import time

import pgqpy
from benchmarks import events
from benchmarks.load.schedule import Schedule, wait_until

SIZE = 500  # events a transaction


def flood(dsn: str, queue: str, schedule: Schedule) -> float:
    """Insert by the schedule, whose numbers are transactions; return how late the latest was."""
    made = events.make(events.DISTINCT)
    chunks = events.chunks(made, schedule.total * SIZE, SIZE)
    late = 0.0
    with pgqpy.connect(dsn) as client:
        for number, chunk in enumerate(chunks):
            due = schedule.due(number)
            wait_until(due)
            late = max(late, (time.monotonic_ns() - due) / 1e9)
            client.insert_events(queue, chunk)
    return late


def main(dsn: str, queue: str, rate: str, seconds: str) -> None:
    """Run as a process of its own; print how many events there were and how late, in seconds."""
    start = time.monotonic_ns()
    stop = start + int(float(seconds) * 1e9)
    schedule = Schedule(start, stop, float(rate) / SIZE)
    late = flood(dsn, queue, schedule)
    json.dump([schedule.total * SIZE, late], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
