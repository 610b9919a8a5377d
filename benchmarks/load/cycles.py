"""A consumer that does batch cycles at a rate, and notes how long each took (a process)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psycopg

import pgqpy
from benchmarks.load.arrivals import answer, parse
from benchmarks.load.schedule import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

Note = Callable[[Iterable[str]], None]
Cycle = Callable[[Note], bool]

CONSUMER = "bench"
READ = "select msg_id, message from pgmq.read(%s, 30, 1000)"
DELETE = "select pgmq.delete(%s, %s::bigint[])"


class CycleLog:
    """Cycles and events: when (ms of CLOCK_MONOTONIC), and how long each took (µs)."""

    def __init__(self) -> None:
        """Answer "count" (of events) and "take" (everything) from now on."""
        self.cycles: list[tuple[int, int]] = []
        self.events: list[tuple[int, int]] = []
        self.numbers = 0
        answer({"count": lambda: len(self.events), "take": lambda: vars(self)})

    def note(self, texts: Iterable[str]) -> None:
        """Note the events of a batch."""
        now = time.monotonic_ns()
        for text in texts:
            number, begun = parse(text)
            self.numbers += number
            self.events.append((now // 1_000_000, (now - begun) // 1000))

    def turn(self, work: Work) -> None:
        """Do a turn's cycles."""
        work.before()
        while self._cycle(work) and not work.whole:
            pass

    def _cycle(self, work: Work) -> bool:
        start = time.monotonic_ns()
        found = work.cycle(self.note)
        now = time.monotonic_ns()
        if found:
            self.cycles.append((now // 1_000_000, (now - start) // 1000))
        return found


class Work(NamedTuple):
    """A contestant's turn.

    Attributes:
        cycle: a batch cycle; False if there was nothing.
        before: called before the first cycle of a turn.
        whole: one cycle takes all events; else cycles go on until no event is left.
    """

    cycle: Cycle
    before: Callable[[], object] = lambda: None
    whole: bool = False


@contextmanager
def pgqpy_work(dsn: str, queue: str) -> Iterator[Work]:
    """Take a batch, read it, finish it; the real ticker ticks."""
    with pgqpy.connect(dsn) as client:
        yield Work(partial(_cycle, client, queue))


@contextmanager
def pgq_work(dsn: str, queue: str) -> Iterator[Work]:
    """Do the same on PGQ in C, by the same client; tick first: pgqd does it once a second."""
    with pgqpy.connect(dsn) as client:
        yield Work(partial(_cycle, client, queue), partial(client.ticker, queue))


def _cycle(client: pgqpy.Client, queue: str, note: Note) -> bool:
    batch = client.next_batch(queue, CONSUMER)
    if batch is None:
        return False
    note([event.data or "" for event in client.get_batch_events(batch)])
    client.finish_batch(batch)
    return True


@contextmanager
def pgmq_work(dsn: str, queue: str) -> Iterator[Work]:
    """Read up to 1,000 at once, and delete them."""
    with psycopg.connect(dsn, autocommit=True) as connection:

        def cycle(note: Note) -> bool:
            found = connection.execute(READ, (queue,)).fetchall()
            note(text for _, text in found)
            if found:
                connection.execute(DELETE, (queue, [number for number, _ in found]))
            return bool(found)

        yield Work(cycle, whole=True)


WORK: dict[str, Callable[[str, str], AbstractContextManager[Work]]] = {
    "pgqpy": pgqpy_work,
    "pgq": pgq_work,
    "pgmq": pgmq_work,
}


def main(peer: str, dsn: str, queue: str, rate: str) -> None:
    """Run as a process of its own until it is terminated."""
    log = CycleLog()
    interval = int(1e9 / float(rate))
    due = time.monotonic_ns()
    with WORK[peer](dsn, queue) as work:
        while True:
            wait_until(due)
            log.turn(work)
            due = max(due + interval, time.monotonic_ns())


if __name__ == "__main__":
    main(*sys.argv[1:])
