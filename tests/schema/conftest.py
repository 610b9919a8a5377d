"""Fixtures of the tests of SQL functions: run a statement, a queue, a batch, a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.schema.statements import INSERT, OPEN
from tests.support.databases import QUEUE_IS_NEW, new_database, queue_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.support.servers import Server


@pytest.fixture(scope="session")
def _queue_template(server: Server, template: str) -> Iterator[str]:
    with queue_template(server, template, "q", "c") as name:
        yield name


@pytest.fixture
def dsn(request: pytest.FixtureRequest, server: Server, template: str) -> Iterator[str]:
    """A fresh database with the schema, and with the queue if the test asks for it."""
    wanted = "queue" in request.fixturenames
    source = request.getfixturevalue("_queue_template") if wanted else template
    with new_database(server, source) as name:
        yield server.dsn(name)


@pytest.fixture
def sql(connection: psycopg.Connection[Any]) -> Callable[..., Any]:
    """Run a statement: `sql("select pgq.create_queue(%s)", "q")` returns the first value."""

    def run(statement: str, *params: object) -> Any:
        cursor = connection.execute(statement, params or None)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    return run


@pytest.fixture
def rows(connection: psycopg.Connection[Any]) -> Callable[..., list[tuple[Any, ...]]]:
    """Run a query and return its rows."""

    def run(statement: str, *params: object) -> list[tuple[Any, ...]]:
        return connection.execute(statement, params or None).fetchall()

    return run


@pytest.fixture
def queue(sql: Callable[..., Any]) -> str:
    """A queue with one consumer, "c"."""
    sql(QUEUE_IS_NEW)
    return "q"


@pytest.fixture
def batch(queue: str, sql: Callable[..., Any]) -> Callable[..., int]:
    """Tick the queue and open the consumer's next batch: `batch()` returns its id."""

    def open_batch(consumer: str = "c") -> int:
        sql("select pgq.tick_queue('q')")
        return int(sql("select pgq.next_batch('q', %s)", consumer))

    return open_batch


@pytest.fixture
def stage(queue: str, connection: psycopg.Connection[Any]) -> Callable[..., int]:
    """Stage events of one type as a task would: `stage("w", 1, "a", "b")` returns the stage."""

    def fill(writer: str, epoch: int | None, *datas: str) -> int:
        with connection.transaction():
            opened = connection.execute(OPEN, (writer, epoch)).fetchone()
            for data in datas:
                connection.execute(INSERT, [data])
        assert opened is not None
        return int(opened[0])

    return fill


@pytest.fixture
def given(queue: str, sql: Callable[..., Any], rows: Callable[..., Any]) -> Callable[[], list[str]]:
    """Return the data of all events that consumers are given, by id."""
    first = sql("select max(tick_id) from pgq.tick")

    def read() -> list[str]:
        last = sql("select tick_id from pgq.tick_queue('q')")
        found = rows("select ev_data from pgq.get_tick_events('q', %s, %s)", first, last)
        return [data for (data,) in found]

    return read
