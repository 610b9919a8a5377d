"""A session that goes on calls nothing of a schema pgq that another role made meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.errors import InFailedSqlTransaction, InvalidTextRepresentation

from pgqpy import QueueNotFound, SchemaRefused
from pgqpy.calls import Call
from pgqpy.client import connect_as_tool
from pgqpy.dashboard.database import Asked, Database
from pgqpy.ticker import session
from pgqpy.ticker.statements import FIND_DUE, Statements
from pgqpy.watch import Watcher
from tests.consumers.harness import Maker
from tests.support.forged import schema_swapped_later, trapped
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    import pgqpy
    from tests.support.servers import Server

    Connection = psycopg.Connection[Any]

LOST = "removed or replaced since this session began"
VERSION = "select pgq.version()"
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "transactional": {"transactional": True},
    "shared": {"shared": True},
    "lanes": {"lanes": 2, "key": "extra1"},
}


@pytest.fixture
def swap(server: Server, dsn: str, new_orders: str) -> Iterator[Callable[[], None]]:
    """A function that drops our schema, and gives its name to a stranger's."""
    with schema_swapped_later(server, dsn) as swap:
        yield swap


@pytest.mark.parametrize("asynchronous", [False, True], ids=["threads", "asyncio"])
def test_idle_consumers_end(
    dsn: str, connection: Connection, swap: Callable[[], None], *, asynchronous: bool
) -> None:
    def handler(_event: pgqpy.Event, *_more: object) -> tuple[()]:
        return ()

    maker = Maker(dsn, asynchronous=asynchronous)
    try:
        running = [
            maker.start(handler, name=name, poll_interval=3600.0, **settings)
            for name, settings in KINDS.items()
        ]
        # Each has looked for a batch.
        eventually(lambda: all(each.consumer.outage() is None for each in running))
        swap()
        connection.execute("notify pgq_orders")
        for each in running:
            with pytest.raises(SchemaRefused, match=LOST):
                each.join()
    finally:
        maker.close()
    assert trapped(connection) == 0


def test_statements_of_the_ticker_are_refused(
    dsn: str, connection: Connection, swap: Callable[[], None]
) -> None:
    with session.open_client(dsn, any_owner=True) as opened:
        session.check_database(opened)
        statements = Statements(opened)
        assert statements.run(VERSION) == statements.run(VERSION)
        swap()
        with pytest.raises(SchemaRefused, match=LOST):
            statements.run(VERSION)
        with pytest.raises(SchemaRefused, match=LOST):
            statements.run(FIND_DUE, b"0", b"9")  # that is prepared only now
        with pytest.raises(SchemaRefused):
            session.check_database(opened)
    assert trapped(connection) == 0


def test_the_watcher_the_dashboard_and_tools_are_refused(
    dsn: str, connection: Connection, swap: Callable[[], None]
) -> None:
    def work(asked: Asked) -> list[Any]:
        return asked.client.connection.execute(VERSION).fetchall()  # as pages do beside calls

    pages = Database(dsn, hide_payloads=False)
    with Watcher(dsn) as watcher, connect_as_tool(dsn) as tool:
        assert watcher.look(fully=True).no_answer is None
        assert asyncio.run(pages.run(work))
        assert tool.get_queue_info()
        swap()
        for words in (LOST, "belongs to role"):
            no_answer = watcher.look(fully=True).no_answer
            assert no_answer is not None
            assert words in no_answer.what
        for text in (LOST, "belongs to role"):
            with pytest.raises(SchemaRefused, match=text):
                asyncio.run(pages.run(work))
        with pytest.raises(SchemaRefused, match=LOST):
            tool.get_queue_info()
    pages.close()
    assert trapped(connection) == 0


def test_an_error_of_a_call_stays_that_of_the_call(dsn: str, new_orders: str) -> None:
    with connect_as_tool(dsn) as tool:
        with pytest.raises(InvalidTextRepresentation, match="moment"):
            tool.call(Call("none", "select %s::text::int", ("moment",), bool))
        assert tool.get_queue_info(new_orders)


def test_a_call_in_a_failed_transaction_is_not_taken_for_prepared(
    dsn: str, new_orders: str
) -> None:
    with connect_as_tool(dsn) as tool, tool.connection.transaction():
        for _ in range(2 * (tool.connection.prepare_threshold or 0)):
            tool.connection.execute("savepoint event")
            with pytest.raises(QueueNotFound):
                tool.insert_event("nope", "t", "x")
            with pytest.raises(InFailedSqlTransaction):
                tool.get_queue_info(new_orders)
            tool.connection.execute("rollback to event")
        assert tool.get_queue_info(new_orders)
