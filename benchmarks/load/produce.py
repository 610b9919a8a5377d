"""A producer: inserts numbered events at a rate, each in a transaction of its own.

An event's text is its number and the time (ns) at which its insert began.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.load.schedule import Schedule, wait_until
from benchmarks.load.senders import SENDERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COOL_DOWN = 0.5  # seconds after which a producer reports, so that reporting disturbs nobody
FILLER = " " + "x" * 170  # about 200 bytes an event


def produce(
    peer: str, dsn: str, queue: str, schedule: Schedule
) -> Iterator[tuple[int, int, int, int]]:
    """Insert; yield each event's number, the start of its insert, how late it was, and its time.

    All in nanoseconds.
    """
    with SENDERS[peer](dsn, queue) as send:
        for number in schedule.numbers:
            due = schedule.due(number)
            wait_until(due)
            now = time.monotonic_ns()
            send(f"{number} {now}{FILLER}")
            yield number, now, now - due, time.monotonic_ns() - now


def parse_schedule(words: Sequence[str]) -> Schedule:
    """Return the schedule that was given as arguments."""
    start, stop, rate, number, producers = words
    return Schedule(int(start), int(stop), float(rate), int(number), int(producers))


def main(peer: str, dsn: str, queue: str, *numbers: str) -> None:
    """Run as a process of its own, and print the inserts as JSON."""
    done = list(produce(peer, dsn, queue, parse_schedule(numbers)))
    time.sleep(COOL_DOWN)
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
