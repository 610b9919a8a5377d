"""One round of latency: from just before an insert to where the consumer's handler begins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import percentile, verify
from benchmarks.load.children import POLL, producers
from benchmarks.load.schedule import Schedule, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.load.arrivals import Arrival
    from benchmarks.load.children import Answering
    from benchmarks.load.cpu import Cpu

GET_READY = 1.2  # seconds for producer processes to import and connect
WARM_UP = 1.0  # seconds at the rate before what counts
PRODUCERS = 2
OVERTIME = 60.0  # seconds that a producer may take longer than planned


class Load(NamedTuple):
    """What is inserted: by whom, where, how fast (events/s) and how long (seconds)."""

    peer: str
    dsn: str
    queue: str
    rate: float
    seconds: float


class Round(NamedTuple):
    """What came of it; times in milliseconds, CPU in percent of a core."""

    rate: float  # events/s that were inserted
    delivered: float  # events/s that arrived while producers ran
    late: float  # 99th percentile of how late an insert began
    p50: float
    p90: float
    p99: float
    max: float
    cpu: float


def measure(load: Load, arrivals: Answering, cpu: Callable[[], Cpu], patience: float = 60) -> Round:
    """Insert at a rate and see every event arrive once; Wrong after `patience` seconds if not."""
    arrivals.ask("count")  # it has started by now
    start = time.monotonic_ns() + int(GET_READY * 1e9)
    warm = start + int(WARM_UP * 1e9)
    stop = warm + int(load.seconds * 1e9)
    schedule = Schedule(start, stop, load.rate, producers=PRODUCERS)
    with producers(load.peer, load.dsn, load.queue, schedule) as children:
        wait_until(warm)
        spent = cpu()
        wait_until(stop)
        percent = spent.percent()
        calls = [call for one in children for call in one.result(load.seconds + OVERTIME)]
    found = collect(arrivals, start, len(calls), patience)
    verify_once(load.peer, [number for number, _, _ in found], schedule.total)
    return summary(calls, found, warm, percent)


def collect(arrivals: Answering, start: int, wanted: int, patience: float) -> list[Arrival]:
    """Take what arrives until so many events have, for `patience` seconds at most.

    What was inserted before `start` is of an earlier round, whose consumer was ended before it
    could say that it had it: such events come again, and were counted then.
    """
    found: list[Arrival] = []
    deadline = time.monotonic() + patience
    while len(found) < wanted and time.monotonic() < deadline:
        time.sleep(POLL)
        found += [(n, begun, now) for n, begun, now in arrivals.ask("take") if begun >= start]
    return found


def verify_once(peer: str, numbers: list[int], total: int) -> None:
    """Raise Wrong unless each of the numbers from 0 to `total` - 1 is there once."""
    verify(f"{peer}: events that came out", len(numbers), total)
    verify(f"{peer}: different events that came out", len(set(numbers)), total)
    verify(f"{peer}: the highest number of an event", max(numbers), total - 1)


def summary(
    calls: Sequence[tuple[int, int, int, int]],
    found: Sequence[tuple[int, int, int]],
    warm: int,
    cpu: float,
) -> Round:
    """Return the figures of what was due after `warm`."""
    counted = {number: late for number, begun, late, _ in calls if begun - late >= warm}
    ended = max(begun + took for _, begun, _, took in calls)
    times = [(now - begun) / 1e6 for number, begun, now in found if number in counted]
    seconds = (ended - warm) / 1e9
    return Round(
        rate=sum(begun >= warm for _, begun, _, _ in calls) / seconds,
        delivered=sum(warm <= now <= ended for _, _, now in found) / seconds,
        late=percentile(counted.values(), 99) / 1e6,
        p50=percentile(times, 50),
        p90=percentile(times, 90),
        p99=percentile(times, 99),
        max=max(times),
        cpu=cpu,
    )
