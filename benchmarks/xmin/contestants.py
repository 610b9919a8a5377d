"""The contestants while xmin is held: their databases and daemons."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import psycopg

import pgqpy
from benchmarks.load import debian
from benchmarks.load.cycles import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from benchmarks.bench import Bench

QUEUE = "bench"
ROTATION = "10 seconds"
MAINT = 2  # seconds between clean-ups
TICK = 0.008  # seconds from a tick to the next poll: about 100 ticks a second
EVERY_TICK = {"ticker_max_count": "1", "ticker_max_lag": "0"}  # whatever came, if anything
UNRELATED = "create table public.unrelated as select 1 as number"


def names(bench: Bench) -> list[str]:
    """Return the contestants of this run: pgqpy alone in a smoke."""
    if bench.length == "smoke":
        return ["pgqpy"]
    pgq = ["pgq"] if bench.has("pgq") and debian.has_pgqd() else []
    return ["pgqpy", *pgq, *(["pgmq"] if bench.has("pgmq") else [])]


def prepare(bench: Bench, peer: str) -> str:
    """Return a database with the contestant's queue, where commits do not wait for the disk.

    The disk would hide what a cycle costs.
    """
    dsn = bench.pgqpy_database("xmin") if peer == "pgqpy" else bench.peer_database(peer)
    dsn = bench.dsn_with(dsn, sync=False)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(UNRELATED)
    if peer != "pgmq":
        set_up(dsn, peer)
    return dsn


def set_up(dsn: str, peer: str) -> None:
    """Make the queue rotate often, and register the consumer."""
    with pgqpy.connect(dsn) as client:
        if peer == "pgqpy":
            client.create_queue(QUEUE)
        settings = {} if peer == "pgqpy" else EVERY_TICK
        for name, value in {"rotation_period": ROTATION, **settings}.items():
            client.set_queue_config(QUEUE, name, value)
        client.register_consumer(QUEUE, CONSUMER)


def maintained(bench: Bench, peer: str, dsn: str) -> AbstractContextManager[object]:
    """Run the contestant's daemon; pgmq leaves all of it to autovacuum."""
    if peer == "pgqpy":
        return bench.ticker(dsn, "--maint-period", str(MAINT), "--tick-interval", str(TICK))
    return debian.pgqd(dsn, maint_period=MAINT, check_period=1) if peer == "pgq" else nullcontext()


@contextmanager
def held_xmin(dsn: str) -> Iterator[None]:
    """Hold a snapshot in an idle transaction, as a forgotten session or a long report does."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select number from public.unrelated")
        yield
        connection.rollback()
