"""What the sink's tests share: a queue `q`, and writers called as Spark calls them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.spark.sink.epochs import Epoch

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11


@pytest.fixture
def options(dsn: str, client: Any) -> dict[str, str]:
    """The options that name the queue."""
    client.create_queue("q")
    return {"dsn": dsn, "queue": "q"}


@pytest.fixture
def epoch(options: dict[str, str]) -> Callable[..., Epoch]:
    """Begin an epoch: `epoch(3)`, `epoch(3, "another query", mode="at_least_once")`."""
    from tests.spark.sink.epochs import Epoch

    def begin(number: int, query: str = "query", **more: str) -> Epoch:
        return Epoch(options | more, query, number)

    return begin


@pytest.fixture
def delivered(
    options: dict[str, str], connection: psycopg.Connection[Any]
) -> Callable[[], list[tuple[str, int]]]:
    """Return data and ev_txid of all events that consumers are given, in their order."""

    def read() -> list[tuple[str, int]]:
        connection.execute("select pgq.tick_queue('q')")
        return connection.execute(
            "select ev_data, ev_txid"
            "  from (select min(tick_id) as first, max(tick_id) as last from pgq.tick) t,"
            "       pgq.get_tick_events('q', first, last)"
        ).fetchall()

    return read


@pytest.fixture
def stored(delivered: Callable[[], list[tuple[str, int]]]) -> Callable[[], list[str]]:
    """Return the data of all events that consumers are given, in their order."""
    return lambda: [data for data, _ in delivered()]
