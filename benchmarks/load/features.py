"""What an event costs with and without each feature: when it is inserted, and when it is read."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from psycopg import sql

import pgqpy
from benchmarks.events import data
from benchmarks.figures import Figure, interleave
from benchmarks.load.fill import DATA, DATA_PREFIX, fill, register_at_start
from benchmarks.readers import waiting
from benchmarks.readers.batches import Counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.bench import Bench

    Insert = Callable[[pgqpy.Client, int], object]
    Inserts = dict[str, Insert]
    Prepare = Callable[[pgqpy.Client, int], int]

QUEUE, TAKER = "bench", "taker"
HOUR = 3600.0  # seconds
LIST = 1000  # events of a call
TICK = 1000  # events
PLAIN = "plain"
SOME_IDS = "select array_agg(ev_id) from {} where ev_id % 100 = 0"
# One event in one transaction. To add a feature, add a line.
INSERTS: dict[str, Insert] = {
    PLAIN: lambda client, number: client.insert_event(QUEUE, "t", data(number)),
    "delayed": lambda client, number: client.insert_event(QUEUE, "t", data(number), delay=HOUR),
    "with a new key": lambda client, number: client.insert_event(
        QUEUE, "t", data(number), dedup_key=f"{time.monotonic_ns()} {number}", dedup_for=HOUR
    ),
    "with a key that is taken": lambda client, number: client.insert_event(
        QUEUE, "t", data(number), dedup_key="taken", dedup_for=HOUR
    ),
}
# LIST events in one transaction.
LIST_INSERTS: dict[str, Insert] = {
    PLAIN: lambda client, _: client.insert_events(QUEUE, [("t", DATA)] * LIST),
    "a list that returns its ids": lambda client, _: client.insert_events(
        QUEUE, [("t", DATA)] * LIST, returning_ids=True
    ),
    "a delayed list": lambda client, _: client.insert_events(
        QUEUE, [("t", DATA)] * LIST, delay=HOUR
    ),
}


def insert_costs(
    bench: Bench, inserts: dict[str, Insert], events: int, each: int
) -> dict[str, Figure]:
    """Return the microseconds of an insert of one event, by feature; a call inserts `each`."""
    dsn = bench.dsn_with(bench.pgqpy_database("features"), sync=False)
    with pgqpy.connect(dsn) as client:
        client.create_queue(QUEUE)
    contestants = {name: partial(_insert, dsn, one, events, each) for name, one in inserts.items()}
    return interleave(contestants, bench.rounds, bench.say)


def _insert(dsn: str, insert: Insert, events: int, each: int) -> float:
    with pgqpy.connect(dsn) as client:
        began = time.monotonic()
        for number in range(events // each):
            insert(client, number)
        return (time.monotonic() - began) / events * 1e6


def read_costs(bench: Bench, events: int) -> dict[str, Figure]:
    """Return the microseconds that a consumer takes for an event, by feature."""
    dsns = {name: bench.pgqpy_database(f"features_{number}") for number, name in enumerate(USES)}
    for name, dsn in dsns.items():
        bench.say(f"filling the queues of: {name}")
        with pgqpy.connect(dsn) as client:
            client.create_queue(QUEUE)
            client.register_consumer(QUEUE, "keeper")
        fill(bench.dsn_with(dsn, sync=False), QUEUE, [TICK] * (events // TICK))
    contestants = {name: partial(_read, dsns[name], name, events) for name in USES}
    return interleave(contestants, bench.rounds, bench.say)


def _read(dsn: str, name: str, events: int) -> float:
    """Read all events; return the microseconds for each one that comes."""
    register_at_start(dsn, QUEUE, TAKER)
    with pgqpy.connect(dsn) as client:
        left_out = USES[name](client, events)
    # With a limit of its own a consumer that is behind takes no larger batches.
    return 1e6 / waiting.run(Counting(dsn, name=TAKER, min_count=1), events - left_out)


def _nothing(_client: pgqpy.Client, _events: int) -> int:
    return 0


def _skip_some(client: pgqpy.Client, _events: int) -> int:
    run = client.connection.execute
    (prefix,) = run(DATA_PREFIX, (QUEUE,)).fetchone() or ("",)
    (ids,) = run(sql.SQL(SOME_IDS).format(sql.Identifier(*prefix.split(".")))).fetchone() or ([],)
    client.skip_event(QUEUE, TAKER, ids)
    return len(ids)


def _delay(client: pgqpy.Client, events: int) -> int:
    for _ in range(events // LIST):
        client.insert_events(QUEUE, [("t", DATA)] * LIST, delay=HOUR)
    return 0


def _read_and_seek(client: pgqpy.Client, events: int) -> int:
    waiting.run(Counting(client.connection.info.dsn, name=TAKER, min_count=1), events)
    client.seek_consumer(QUEUE, TAKER, "beginning")
    return 0


# What is done before the events are read; it returns how many do not come.
USES: dict[str, Prepare] = {
    PLAIN: _nothing,
    "1 % of the events skipped": _skip_some,
    "after a seek back": _read_and_seek,
    "while delayed events wait": _delay,
}
