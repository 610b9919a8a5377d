"""Sessions behind PgBouncer: the product's own are refused where it shares sessions."""

from __future__ import annotations

import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy import ConnectionFailed, calls
from pgqpy.cli import main
from pgqpy.client import connect_as_tool, connect_as_tool_async
from pgqpy.consumers import AsyncConsumer, Consumer
from pgqpy.ticker.session import open_client
from tests.support import poolers
from tests.support.poolers import pgbouncer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)

STATE = """
    select pg_backend_pid(),
        (select array_agg(s.name || '=' || s.setting order by s.name) from pg_settings s
          where s.source = 'session'
            and s.name not in ('application_name', 'client_encoding', 'transaction_isolation')),
        (select count(*) from pg_locks l
          where l.locktype = 'advisory' and l.pid = pg_backend_pid()),
        (select array_agg(channel) from pg_listening_channels() channel)
"""


@pytest.fixture
def transactions(dsn: str, new_orders: str) -> Iterator[str]:
    """The DSN of a pool in transaction mode, for a database with the queue `orders`."""
    with pgbouncer(dsn, "transaction") as pooled:
        yield pooled


class Billing(Consumer):
    """A consumer that ends with its first event."""

    queue = "orders"
    name = "billing"

    def process_event(self, event: pgqpy.Event) -> None:
        self.handled = event.data
        self.stop()


class AsyncBilling(AsyncConsumer):
    """The same in asyncio: it only has to start."""

    queue = "orders"
    name = "billing"

    async def process_event(self, event: pgqpy.Event) -> None:
        """Handle nothing."""


@pytest.mark.parametrize(
    "opens",
    [
        connect_as_tool,
        connect_as_tool_async,
        lambda dsn: Billing(dsn).run(),
        lambda dsn: AsyncBilling(dsn).run(),
        open_client,
    ],
    ids=["tool", "async tool", "consumer", "async consumer", "ticker"],
)
async def test_a_session_that_a_pool_shares_is_refused_and_left_as_it_was(
    transactions: str, opens: Any
) -> None:
    with psycopg.connect(transactions, autocommit=True, prepare_threshold=None) as application:
        before = application.execute(STATE).fetchone()
        with pytest.raises(ConnectionFailed, match="connect directly to the server") as caught:
            opened = opens(transactions)
            if inspect.isawaitable(opened):
                await opened
        assert "pooler in session mode" in str(caught.value)
        assert "only a shared consumer can use such sessions" in str(caught.value)
        assert application.execute(STATE).fetchone() == before


def test_a_shared_consumer_leaves_the_session_that_a_pool_shares_as_it_was(
    transactions: str,
) -> None:
    with psycopg.connect(transactions, autocommit=True, prepare_threshold=None) as application:
        before = application.execute(STATE).fetchone()
        client = pgqpy.Client(application)
        client.call(calls.sharing.set_consumer_mode("orders", "billing", "shared"))
        client.insert_event("orders", "t", "paid")
        billing = Billing(transactions, shared=True, lease=30)
        billing.run()
        assert billing.handled == "paid"
        assert application.execute(STATE).fetchone() == before


@pytest.mark.parametrize("args", [["queue", "list"], ["doctor"], ["ticker", "status"]])
def test_a_command_says_what_to_do_behind_a_pool_in_transaction_mode(
    transactions: str, args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--dsn", transactions, *args])
    assert ended.value.code != 0
    assert "connect directly to the server" in "".join(capsys.readouterr())


@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_a_pool_that_gives_its_sessions_in_turn_is_refused(
    dsn: str, new_orders: str, sessions: int
) -> None:
    with pgbouncer(dsn, "transaction", server_round_robin=1) as pooled:
        with ExitStack() as stack:
            for _ in range(sessions):  # in a transaction each: it has a session to itself
                stack.enter_context(psycopg.connect(pooled)).execute("select 1")
        with pytest.raises(ConnectionFailed, match="pooler in session mode"):
            connect_as_tool(pooled)


def test_pool_in_session_mode_serves_commands_consumers_and_ticker(
    dsn: str, new_orders: str
) -> None:
    with pgbouncer(dsn, "session") as pooled:
        with connect_as_tool(pooled) as client:
            path = client.connection.execute("show search_path").fetchone()
            assert path == ("pg_catalog, pg_temp",)
            client.insert_event("orders", "t", "paid")
            client.tick_queue("orders")
        with open_client(pooled) as session:
            assert session.connection.execute("show jit").fetchone() == ("off",)
        billing = Billing(pooled)
        billing.run()
        assert billing.handled == "paid"
        with psycopg.connect(pooled) as application:
            path = application.execute("show search_path").fetchone()
            assert path == ('"$user", public',)


def test_a_pool_without_room_for_the_check_is_named_with_what_to_do(dsn: str) -> None:
    with (
        pgbouncer(dsn, "session", default_pool_size=1, query_wait_timeout=1) as pooled,
        pytest.raises(ConnectionFailed, match="enlarge its pool"),
    ):
        connect_as_tool(pooled)


def test_an_application_inserts_and_reads_through_a_pool_in_transaction_mode(
    transactions: str,
) -> None:
    with pgqpy.connect(transactions, prepare_threshold=None) as client:
        client.insert_event("orders", "t", "paid")
        client.tick_queue("orders")
    with psycopg.connect(transactions, prepare_threshold=None) as application:
        mine = pgqpy.Client(application)
        batch = mine.next_batch("orders", "billing")
        assert batch is not None
        assert [event.data for event in mine.get_batch_events(batch)] == ["paid"]
        mine.finish_batch(batch)


def test_receivers_look_by_themselves_behind_a_pool_in_transaction_mode(
    transactions: str,
    dsn: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "pgqpy.client")
    monkeypatch.setattr("pgqpy.client._sync.messages.POLL_INTERVAL", 0.05)
    with (
        pgqpy.connect(transactions, prepare_threshold=None) as client,
        pgqpy.connect(dsn) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        received = threads.submit(client.receive, "orders", "sender", wait=60)
        eventually(lambda: "cannot listen: ConnectionFailed: behind a pooler" in caplog.text)
        other.insert_event("orders", "t", "paid")
        other.tick_queue("orders")
        (message,) = received.result(30)
        message.done()
        listening = "select count(*) from pg_stat_activity where query ilike 'listen %'"
        assert other.connection.execute(listening).fetchone() == (0,)
