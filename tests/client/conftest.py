"""Both clients, one after the other, on a queue with a registered consumer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import pgqpy
from tests.client.either import Either

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import psycopg

    from pgqpy import Batch


SESSIONS = """
    select pid from pg_stat_activity
     where datname = current_database() and query ilike 'listen %' order by pid
"""


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for calls that wait."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def sessions(connection: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    """Return the process ids of the sessions that listen."""
    return lambda: [pid for (pid,) in connection.execute(SESSIONS)]


@pytest.fixture(params=["sync", "async"])
async def either(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Any]:
    """A client of the test's database, with a connection of its own: first sync, then async."""
    if request.param == "async":
        async with await pgqpy.connect_async(dsn) as client:
            yield client
    else:
        with pgqpy.connect(dsn) as sync_client:
            yield Either(sync_client)


@pytest.fixture
async def orders(either: Any, new_orders: str) -> Any:
    """The same client, on a queue `orders` with the consumer `billing`."""
    return either


@pytest.fixture
def queue(client: pgqpy.Client, new_orders: str) -> pgqpy.Client:
    """The sync client alone, on a queue `orders` with the consumer `billing`."""
    return client


@pytest.fixture
def inserted(connection: psycopg.Connection[Any]) -> Any:
    """Return (type, data, extra1..4) of all events inserted so far, by another connection."""

    def events() -> list[Any]:
        return connection.execute(
            "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
            "  from pgq.event_template order by ev_id"
        ).fetchall()

    return events


def open_batch(client: pgqpy.Client, *events: tuple[str | None, ...]) -> Batch:
    """Insert events into the queue `orders`, tick it, and open the next batch of `billing`."""
    client.insert_events("orders", events)
    client.tick_queue("orders")
    batch = client.next_batch("orders", "billing")
    assert batch is not None
    return batch


async def next_batch(client: Any, *events: tuple[str | None, ...]) -> Batch:
    """Insert events into the queue `orders`, tick it, and open the next batch of `billing`."""
    await client.insert_events("orders", events)
    await client.tick_queue("orders")
    batch = await client.next_batch("orders", "billing")
    assert batch is not None
    return batch
