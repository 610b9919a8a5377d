"""A client that tasks or threads share: what a call has returned is committed."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from pgqpy import InvalidEvent

if TYPE_CHECKING:
    import psycopg

COUNT = "select count(*) from pgq.event_template"
MANY = [("many", str(number)) for number in range(20)]
BROKEN = [*MANY, ("many", "a\0")]


def works(number: int) -> tuple[str, Any, dict[str, bool]]:
    """Return the method of one call, its events, and its options: four kinds take turns."""
    kinds = [
        ("insert_events", MANY, {"returning_ids": True}),
        ("insert_events", MANY, {}),
        ("insert_events", BROKEN, {"returning_ids": True}),
        ("insert_event", ("one", str(number)), {}),
    ]
    return kinds[number % 4]


@pytest.mark.parametrize("clients", [1, 2])
def test_threads(
    dsn: str, new_orders: str, connection: psycopg.Connection[Any], clients: int
) -> None:
    with pgqpy.connect(dsn) as client:
        made = [client, pgqpy.Client(client.connection)][:clients]

        def call(number: int) -> int:
            method, events, options = works(number)
            arguments = events if method == "insert_event" else (events,)
            with suppress(InvalidEvent):
                getattr(made[number % clients], method)(new_orders, *arguments, **options)
                return 1 if method == "insert_event" else len(MANY)
            return 0

        with ThreadPoolExecutor(4) as pool:
            inserted = sum(pool.map(call, range(80)))
        assert inserted == 20 * (20 + 20 + 1)
        assert connection.execute(COUNT).fetchone() == (inserted,)
        assert client.runner.alone()


@pytest.mark.parametrize("clients", [1, 2])
async def test_tasks(
    dsn: str, new_orders: str, connection: psycopg.Connection[Any], clients: int
) -> None:
    async with await pgqpy.connect_async(dsn) as client:
        made = [client, pgqpy.AsyncClient(client.connection)][:clients]

        async def call(number: int) -> int:
            method, events, options = works(number)
            arguments = events if method == "insert_event" else (events,)
            with suppress(InvalidEvent):
                await getattr(made[number % clients], method)(new_orders, *arguments, **options)
                return 1 if method == "insert_event" else len(MANY)
            return 0

        inserted = sum(await asyncio.gather(*map(call, range(80))))
        assert inserted == 20 * (20 + 20 + 1)
        assert connection.execute(COUNT).fetchone() == (inserted,)
        assert client.runner.alone()
