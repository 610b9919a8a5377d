"""What the sink's tests share: a queue `q`, and writers called as Spark calls them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.spark.sink.epochs import Epoch

collect_ignore_glob = [] if sys.version_info >= (3, 11) else ["test_*.py"]  # pyspark wants 3.11


@pytest.fixture
def options(dsn: str, client: Any) -> dict[str, str]:
    """The options that name the queue."""
    client.create_queue("q")
    return {"dsn": dsn, "queue": "q"}


@pytest.fixture
def epoch(options: dict[str, str]) -> Iterator[Callable[..., Epoch]]:
    """Begin an epoch: `epoch(3)`, `epoch(3, "another query", mode="at_least_once")`."""
    from tests.spark.sink.epochs import Epoch, leave_task

    def begin(number: int, query: str = "query", **more: str) -> Epoch:
        return Epoch(options | more, query, number)

    yield begin
    leave_task()


@pytest.fixture
def stored(connection: psycopg.Connection[Any]) -> Callable[[], list[str]]:
    """Return the data of all events, in their order."""

    def read() -> list[str]:
        found = connection.execute("select ev_data from pgq.event_1 order by ev_id").fetchall()
        return [data for (data,) in found]

    return read
