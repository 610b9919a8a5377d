"""The dashboard with many queues, consumers and dead events: pages, one viewer, a large delete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

import pgqpy
from benchmarks.bench import QUEUES, one_value
from benchmarks.figures import Figure, percentile, verify
from benchmarks.load.browse import Browser, dashboard
from benchmarks.load.cpu import Cpu
from benchmarks.report import Section, Table, at_most, paragraphs

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.report import Cell

TITLE = "The dashboard with 1,000 queues, 100 consumers and a million dead events"

QUEUE, OTHER = QUEUES[0], QUEUES[-1]
CONSUMER = "consumer_000"
PLACE = f"queue={QUEUE}&consumer={CONSUMER}"
PAGES = {
    "overview": "/",
    "overview, the last page": "/?page=20",
    "queue": f"/queue?queue={QUEUE}",
    "consumer": f"/consumer?{PLACE}",
    "dead events": f"/dead?{PLACE}",
    "dead events of one type and error": f"/dead?{PLACE}&type=type1&error=ValueError1",
    "dead events, none matches": f"/dead?{PLACE}&type=none",
    "events": f"/events?queue={QUEUE}",
    "cron": "/cron",
    "readers": "/readers",
    "archives": "/archives",
    "health": "/tickers",
    "changes": "/changes",
}
DEAD = """
    insert into pgq.dead_event (dead_error, dead_reason, dead_traceback, dead_tries, ev_queue,
        ev_owner, ev_id, ev_time, ev_txid, ev_type, ev_data)
    select 'ValueError' || n %% 7, 'reason ' || n, repeat('x', 300), 5, sub_queue, sub_id, n, now(),
           1, 'type' || n %% 5, repeat('data ', 20)
      from generate_series(1, %s) n, pgq.subscription join pgq.queue on queue_id = sub_queue
     where queue_name = %s
"""
LEFT = "select count(*) from pgq.dead_event"
SESSIONS = """
    select pid from pg_stat_activity
     where application_name ~ '^pgqpy (dashboard|watch)' and datname = current_database()
"""
RUNNING = "select count(*) from pgq.change where change_ended is null"
VIEWS = 21  # of each page; the first one is left out
PAUSE = 0.02  # seconds between two ticks that are timed
PATIENCE = 600.0  # seconds for the delete
NOTES = """
The ticker runs. A page is asked for 20 times after a first time; the answer is the page without its
scripts and styles, which browsers keep. With one viewer, the overview follows the database; the CPU
of the dashboard's sessions in the server counts too. A tick is that of another queue, with one
event, by a session of the benchmark.
"""


def run(bench: Bench) -> Section:
    """Measure the pages, the CPU of one viewer, and the ticks beside a delete."""
    count = bench.pick(smoke=2000, default=1_000_000, long=1_000_000)
    dsn = bench.thousand()
    with pgqpy.connect(dsn) as client:
        consumers = dict(
            zip(QUEUES, (f"consumer_{number:03}" for number in range(100)), strict=False)
        )
        for queue, consumer in consumers.items():
            client.register_consumer(queue, consumer)
        bench.say(f"{count:,} dead events")
        client.connection.execute(DEAD.encode(), [count, QUEUE])
        client.connection.execute("analyze pgq.dead_event")
        try:
            with bench.ticker(dsn), dashboard(dsn) as (process, browser):
                bench.say("pages")
                pages = {name: opened(browser, path) for name, path in PAGES.items()}
                cpu = with_viewer(bench, client, process, browser)
                bench.say("ticks, and a delete")
                alone = ticks(client, time.monotonic() + bench.pick(smoke=1, default=15, long=60))
                busy, took = delete(client, browser)
        finally:
            for queue, consumer in consumers.items():
                client.unregister_consumer(queue, consumer)
    return Section(
        "dashboard",
        TITLE,
        [
            Table("Pages", ["", "time"], [[name, each] for name, each in pages.items()], "ms"),
            Table(
                "A tick of another queue",
                ["", "p50", "p99", "max"],
                [
                    ["nothing is deleted", *_percentiles(alone)],
                    [f"{count:,} dead events are deleted", *_percentiles(busy)],
                ],
                "ms",
                f"The delete took {took:.0f} s.",
            ),
        ],
        [
            at_most("slowest page (ms)", max(each.median for each in pages.values()), 300),
            at_most("one viewer: dashboard and its sessions (% of a core)", cpu, 2),
            at_most("p99 of a tick beside the delete (ms)", percentile(busy, 99), 50),
        ],
        notes=paragraphs(NOTES),
    )


def opened(browser: Browser, path: str) -> Figure:
    """Return how long a page takes, in milliseconds."""
    times = []
    for _ in range(VIEWS):
        start = time.perf_counter()
        browser.get(path)
        times.append((time.perf_counter() - start) * 1000)
    return Figure(times[1:])


def with_viewer(
    bench: Bench, client: pgqpy.Client, process: psutil.Process, browser: Browser
) -> float:
    """Return the CPU that one viewer costs."""

    def spent() -> float:
        pids = [process.pid, *(row[0] for row in client.connection.execute(SESSIONS).fetchall())]
        times = [psutil.Process(pid).cpu_times() for pid in pids]
        return sum(each.user + each.system for each in times)

    seconds = bench.pick(smoke=2, default=60, long=300)
    bench.say(f"one viewer for {seconds} s")
    with browser.viewer():
        time.sleep(bench.pick(smoke=1, default=10, long=10))  # the checks have run
        cpu = Cpu(spent)
        time.sleep(seconds)
        return cpu.percent()


def ticks(client: pgqpy.Client, until: float) -> list[float]:
    """Return how long each tick of the other queue takes, in milliseconds."""
    found = []
    while time.monotonic() < until:
        found.append(tick(client))
        time.sleep(PAUSE)
    return found


def tick(client: pgqpy.Client) -> float:
    """Insert an event and tick; return how long the tick takes, in milliseconds."""
    client.insert_event(OTHER, "t", "")
    start = time.perf_counter()
    client.tick_queue(OTHER)
    return (time.perf_counter() - start) * 1000


def delete(client: pgqpy.Client, browser: Browser) -> tuple[list[float], float]:
    """Delete all dead events by the dashboard; return the ticks meanwhile, and the seconds."""
    browser.post("/change/delete-dead", "/changes", queue=QUEUE, consumer=CONSUMER)
    start, found = time.monotonic(), [tick(client)]
    while one_value(client.connection, RUNNING):
        verify("the delete goes on", time.monotonic() - start < PATIENCE, wanted=True)
        found.append(tick(client))
        time.sleep(PAUSE)
    verify("dead events", one_value(client.connection, LEFT), 0)
    return found, time.monotonic() - start


def _percentiles(times: list[float]) -> list[Cell]:
    return [percentile(times, 50), percentile(times, 99), max(times)]
