"""Under load, with rotation, rollbacks and kills: each committed event is in one file, once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pgqpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.archive.shop import Shop
    from tests.support.processes import PythonProcess

PRODUCERS, TRANSACTIONS = 4, 60
CODE = """
import sys
from pgqpy.cli import main
_, dsn, location = sys.argv
to = ["--queue", "orders", "--to", location, "--max-events", "1"]
main(["--dsn", dsn, "archive", "run", *to])
"""


def produce(dsn: str, number: int) -> set[str]:
    """Insert events in transactions, some of which end in a rollback; return what was committed."""
    luck, committed = random.Random(number), set()
    with pgqpy.connect(dsn) as client:
        for transaction in range(TRANSACTIONS):
            data = [f"{number}-{transaction}-{event}" for event in range(luck.randint(1, 4))]
            fails = luck.random() < 0.2
            with client.connection.transaction(force_rollback=fails):
                for each in data:
                    client.insert_event("orders", "t", each)
                    if luck.random() < 0.3:  # other transactions commit in between
                        client.connection.execute("select pg_sleep(0.005)")
            committed |= set() if fails else set(data)
    return committed


def keep_house(shop: Shop) -> None:
    """Tick, compact and rotate."""
    shop.tick()
    execute = shop.client.connection.execute
    execute("select pgq.maint_rotate_tables_step1('orders')")
    execute("select pgq.maint_rotate_tables_step2()")
    execute("select pgq.compact_ticks()")


def test_each_committed_event_is_archived_once(
    shop: Shop, spawn: Callable[..., PythonProcess]
) -> None:
    shop.client.connection.execute("update pgq.queue set queue_rotation_period = '0'")
    shop.run()
    kills = 0
    with ThreadPoolExecutor(PRODUCERS) as pool:
        producers = [pool.submit(produce, shop.dsn, number) for number in range(PRODUCERS)]
        while not all(producer.done() for producer in producers):
            keep_house(shop)
            run = spawn("-c", CODE, shop.dsn, shop.location)
            for _ in range(5):
                keep_house(shop)
            run.wait_for_output("event(s)")
            run.kill()
            kills += 1
    shop.tick()
    shop.run()
    committed = set[str]().union(*(producer.result() for producer in producers))
    archived = shop.archived()
    assert len(archived) == len(set(archived))
    assert set(archived) == committed
    assert kills > 0
