"""A receiver: claims and ends events for some time, once for each order (a process of its own)."""

from __future__ import annotations

import json
import sys
import time
from typing import NamedTuple

import psycopg

from benchmarks.readers.claims import RECEIVERS

PAUSE = 0.001  # seconds after a turn that found nothing


class Order(NamedTuple):
    """What to do; times are nanoseconds of CLOCK_MONOTONIC.

    Attributes:
        contestant: of `claims.RECEIVERS`.
        dsn: its database.
        limit: events a turn.
        start: from then on, events count. Before, turns warm the session up.
        stop: no turn begins then or later.
    """

    contestant: str
    dsn: str
    limit: int
    start: int
    stop: int


class Received(NamedTuple):
    """The events that were claimed and ended, and those of them that count."""

    events: int
    ids: int  # their sum
    counted: int
    last: int  # when the last turn that found events was over


def receive(order: Order) -> Received:
    """Take turns at once and until the end."""
    events = ids = counted = 0
    last = order.start
    with psycopg.connect(order.dsn, autocommit=True) as connection:
        receiver = RECEIVERS[order.contestant](connection, order.limit)
        while (now := time.monotonic_ns()) < order.stop:
            found = receiver.turn()
            if not found:
                time.sleep(PAUSE)
                continue
            events += len(found)
            ids += sum(found)
            if now >= order.start:
                counted += len(found)
                last = time.monotonic_ns()
        receiver.end()
    return Received(events, ids, counted, last)


def main() -> None:
    """Answer each line with an order by a line with what was received."""
    for line in sys.stdin:
        print(json.dumps(receive(Order(*json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
