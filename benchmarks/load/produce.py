"""A producer: inserts numbered events at a rate, each in a transaction of its own.

An event's text is its number and the time (ns) at which its insert began.
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.load.schedule import Schedule, wait_until
from benchmarks.load.senders import SENDERS

COOL_DOWN = 0.5  # seconds after which a producer reports, so that reporting disturbs nobody
FILLER = " " + "x" * 170  # about 200 bytes an event


def produce(peer: str, dsn: str, queue: str, schedule: Schedule) -> list[tuple[int, int, int, int]]:
    """Insert; return each event's number, when its insert began, how late that was, and its time.

    All in nanoseconds.
    """
    done = []
    with SENDERS[peer](dsn, queue) as send:
        for number in schedule.numbers:
            due = schedule.due(number)
            wait_until(due)
            now = time.monotonic_ns()
            send(f"{number} {now}{FILLER}")
            done.append((number, now, now - due, time.monotonic_ns() - now))
    return done


def main(peer: str, dsn: str, queue: str, *numbers: str) -> None:
    """Run as a process of its own, and print what was done as JSON."""
    start, stop, rate, number, producers = numbers
    schedule = Schedule(int(start), int(stop), float(rate), int(number), int(producers))
    done = produce(peer, dsn, queue, schedule)
    time.sleep(COOL_DOWN)
    json.dump(done, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
