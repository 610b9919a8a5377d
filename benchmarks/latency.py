"""How long from insert_event to process_event, and what the ticker costs. `make bench`.

A server of its own (the embedded PostgreSQL), the real ticker process with default settings, a
real consumer process, and producer processes that insert one event a transaction at a fixed rate.
The latency of an event begins just before insert_event is called and ends where process_event
begins, by one clock (CLOCK_MONOTONIC, one machine). Producers keep to an absolute schedule: a slow
insert does not make the following ones late unseen, and how late they were is printed too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

import pgqpy
from pgqpy import install
from pgqpy.consumers import Consumer
from pgqpy.testing import embedded_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

QUEUE, CONSUMER = "latency", "bench"
END = "end"  # type of the event after which the consumer reports
GET_READY = 2.0  # seconds for producer processes to import and connect
WARM_UP = 2.0  # seconds at the rate before each round
COOL_DOWN = 0.5  # seconds after which a producer reports, so that reporting disturbs nobody
SETTLE = 6.0  # seconds of silence after which the ticker counts as idle
WAIT = 120.0  # seconds for whatever has to happen
DURABILITY = {
    "on": {"fsync": "on", "synchronous_commit": "on"},
    "off": {"fsync": "off", "synchronous_commit": "off"},
}


class Round(NamedTuple):
    """What one round at one rate measured; times in milliseconds, CPU in percent of a core."""

    rate: float
    late: float  # 99th percentile of how late a producer called insert_event
    got: int
    p50: float
    p90: float
    p99: float
    max: float
    ticker_cpu: float


class Latency(Consumer):
    """Notes when each event arrives; the data says when its insert began."""

    queue = QUEUE
    name = CONSUMER
    found: list[tuple[int, str, int]]  # id, data, nanoseconds

    def process_event(self, event: pgqpy.Event) -> None:
        """Take the time first."""
        now = time.monotonic_ns()
        if event.type == END:
            Path(str(event.data)).write_text(json.dumps(self.found))
            self.found = []
        else:
            self.found.append((event.id, str(event.data), now))


def consume(dsn: str) -> None:
    """Run the consumer (a process of its own)."""
    consumer = Latency(dsn)
    consumer.found = []
    consumer.run()


def produce(dsn: str, rate: float, start: int, stop: int) -> None:
    """Insert at a fixed rate between two times in ns (a process of its own); print the lateness."""
    late = []
    with pgqpy.connect(dsn) as client:
        for number in range(round(rate * (stop - start) / 1e9)):
            due = start + int(number * 1e9 / rate)
            while (wait := due - time.monotonic_ns()) > 0:
                time.sleep(wait / 1e9)
            now = time.monotonic_ns()
            client.insert_event(QUEUE, "event", str(now))
            late.append((now, now - due))
    time.sleep(COOL_DOWN)
    print(json.dumps(late))


@contextmanager
def process(*args: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a python process for as long as the block lasts."""
    child = subprocess.Popen([sys.executable, *args], stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def start_producers(dsn: str, start: int, stop: int, options: Any) -> list[subprocess.Popen[bytes]]:
    """Start producers side by side that share the rate, each half an interval after the other."""
    rate, number = options.rate / options.producers, options.producers
    offsets = [int(index * 1e9 / options.rate) for index in range(number)]
    return [
        subprocess.Popen(
            [sys.executable, __file__, "--produce", dsn, *map(str, (rate, start + offset, stop))],
            stdout=subprocess.PIPE,
        )
        for offset in offsets
    ]


def collect(client: pgqpy.Client, directory: str) -> list[tuple[int, str, int]]:
    """Have the consumer write down what it got so far, and return it."""
    report = Path(directory) / f"report-{time.monotonic_ns()}"
    client.insert_event(QUEUE, END, str(report))
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        try:
            return [(event, data, now) for event, data, now in json.loads(report.read_text())]
        except (FileNotFoundError, ValueError):
            time.sleep(0.05)
    raise SystemExit(f"the consumer did not report within {WAIT} s")


def measure(client: pgqpy.Client, dsn: str, ticker: psutil.Process, options: Any) -> Round:
    """Run one round at `options.rate`: warm up, measure, verify the count."""
    start = time.monotonic_ns() + int(GET_READY * 1e9)
    warm = start + int(WARM_UP * 1e9)
    stop = warm + int(options.seconds * 1e9)
    producers = start_producers(dsn, start, stop, options)
    time.sleep((warm - time.monotonic_ns()) / 1e9)
    cpu = Cpu(ticker)
    time.sleep((stop - time.monotonic_ns()) / 1e9)
    ticker_cpu = cpu.percent()
    calls = [call for one in producers for call in json.loads(one.communicate(timeout=WAIT)[0])]
    found = collect(client, options.directory)
    if len(found) != len(calls) or len({event for event, _, _ in found}) != len(calls):
        raise SystemExit(f"{len(calls)} events went in, {len(found)} came out")
    measured = {now: late for now, late in calls if now - late >= warm}
    times = sorted((now - int(data)) / 1e6 for _, data, now in found if int(data) in measured)
    late = sorted(nanoseconds / 1e6 for nanoseconds in measured.values())
    return Round(
        rate=len(late) * 1e9 / (max(measured) - warm),
        late=percentile(late, 99),
        got=len(times),
        p50=percentile(times, 50),
        p90=percentile(times, 90),
        p99=percentile(times, 99),
        max=times[-1],
        ticker_cpu=ticker_cpu,
    )


class Cpu:
    """The CPU time a process takes, in percent of a core."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before, self._start = self._seconds(), time.monotonic()

    def percent(self) -> float:
        """Return what it took since this object was made."""
        took = time.monotonic() - self._start
        return 100 * (self._seconds() - self._before) / took

    def _seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def percentile(ordered: list[float], percent: float) -> float:
    """Return the value that `percent` of the values do not exceed."""
    return ordered[min(len(ordered) - 1, round(len(ordered) * percent / 100))]


def bench(durability: str, options: Any) -> tuple[dict[int, Round], float]:
    """Measure on a server with this durability: medians for each rate, and the idle CPU."""
    with embedded_server(settings=DURABILITY[durability]) as server:
        dsn = server.dsn()
        options.directory = str(server.directory)
        with pgqpy.connect(dsn) as client:
            install.install(client.connection)
            client.create_queue(QUEUE)
            client.register_consumer(QUEUE, CONSUMER)
            arguments = ("-m", "pgqpy.ticker", "--dsn", dsn)
            with process(*arguments) as daemon, process(__file__, "--consume", dsn):
                ticker = psutil.Process(daemon.pid)
                medians = {}
                for rate in options.rates:
                    options.rate = rate
                    rounds = [measure(client, dsn, ticker, options) for _ in range(options.rounds)]
                    medians[rate] = median(rounds)
                    show(durability, rate, medians[rate])
                return medians, idle(ticker, options)


def idle(ticker: psutil.Process, options: Any) -> float:
    """Return the ticker's CPU while nothing happens."""
    time.sleep(SETTLE)
    cpu = Cpu(ticker)
    time.sleep(options.idle)
    return cpu.percent()


def median(rounds: list[Round]) -> Round:
    """Return the median of each figure."""
    return Round(*(statistics.median(figures) for figures in zip(*rounds, strict=True)))


def show(durability: str, rate: int, measured: Round) -> None:
    """Say on standard error how far it is."""
    text = f"fsync and synchronous_commit {durability}, {rate}/s: p50 {measured.p50:.1f} ms"
    print(text, file=sys.stderr, flush=True)


ROWS = (
    ("events/s achieved", "rate", "{:.0f}"),
    ("events in, all out once", "got", "{:.0f}"),
    ("inserts late, p99 (ms)", "late", "{:.2f}"),
    ("latency p50 (ms)", "p50", "{:.2f}"),
    ("latency p90 (ms)", "p90", "{:.2f}"),
    ("latency p99 (ms)", "p99", "{:.2f}"),
    ("latency max (ms)", "max", "{:.2f}"),
    ("ticker CPU (% of a core)", "ticker_cpu", "{:.2f}"),
)


def table(results: dict[str, tuple[dict[int, Round], float]]) -> str:
    """Return the results as text, one column a durability."""

    def line(name: str, title: str, cells: Iterable[str]) -> str:
        return f"{name:<8}{title:<26}" + "".join(f"{cell:>14}" for cell in cells)

    lines = [line("", "", (f"durable {name}" for name in results))]
    for rate in next(iter(results.values()))[0]:
        for title, field, form in ROWS:
            cells = [form.format(getattr(rounds[rate], field)) for rounds, _ in results.values()]
            lines.append(line(f"{rate}/s", title, cells))
    lines.append(line("idle", ROWS[-1][0], (f"{cpu:.2f}" for _, cpu in results.values())))
    return "\n".join(lines)


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 2000], help="events/s")
    parser.add_argument("--seconds", type=float, default=10, help="of each round")
    parser.add_argument("--rounds", type=int, default=3, help="whose medians are printed")
    parser.add_argument("--producers", type=int, default=2, help="processes that share the rate")
    parser.add_argument("--idle", type=float, default=20, help="seconds of silence to measure")
    parser.add_argument("--durability", nargs="+", choices=list(DURABILITY), default=["on", "off"])
    parser.add_argument("--consume", metavar="DSN", help=argparse.SUPPRESS)
    parser.add_argument("--produce", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        return consume(options.consume)
    if options.produce:
        dsn, rate, start, stop = options.produce
        return produce(dsn, float(rate), int(start), int(stop))
    results = {name: bench(name, options) for name in options.durability}
    print(f"medians of {options.rounds} rounds of {options.seconds:g} s, {os.cpu_count()} cores")
    print(table(results))
    return None


if __name__ == "__main__":
    main()
