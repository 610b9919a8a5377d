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
    """The load: contestant, database, queue, rate (events/s) and duration (seconds)."""

    peer: str
    dsn: str
    queue: str
    rate: float
    seconds: float


class Round(NamedTuple):
    """The figures of a round: times in milliseconds, CPU in percent of a core."""

    rate: float  # events/s that were inserted
    delivered: float  # events/s that arrived while producers ran
    late: float  # 99th percentile of how late an insert began
    p50: float
    p90: float
    p99: float
    max: float
    cpu: float


def measure(load: Load, arrivals: Answering, cpu: Callable[[], Cpu], patience: float = 60) -> Round:
    """Insert at a rate; Wrong unless every event arrives once within `patience` seconds."""
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
    """Take arrivals until `wanted` events are there, for at most `patience` seconds.

    Events inserted before `start` belong to an earlier round, which counted them. Its consumer
    ended before it finished them, so they are delivered again.
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
    """Return the figures of the events that were due after `warm`."""
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
