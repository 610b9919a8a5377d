r"""Names of the cluster that are no UTF-8: a role and a prepared transaction, made in LATIN1.

The session's role is renamed when it is connected: a client in UTF-8 cannot write its name.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import pgqpy
from pgqpy.consumers import Consumer
from pgqpy.errors import ConsumerRunning
from pgqpy.table_locks import find_blockages
from pgqpy.ticker import Ticker
from pgqpy.ticker.loop import SkippedQueues
from pgqpy.ticker.settings import TickerSettings
from tests.cli.support import Connect, Connection, Examine, Run
from tests.cli.test_doctor_running import age
from tests.consumers.harness import short_grace
from tests.guarantees.sessions import refused
from tests.support.databases import encoded_database
from tests.support.servers import Server
from tests.support.waiting import eventually

SHOWN = r"m\xfcller"


@pytest.fixture
def latin1(server: Server) -> Iterator[Connection]:
    """A session in a database in LATIN1."""
    with encoded_database(server, "LATIN1") as dsn, psycopg.connect(dsn, autocommit=True) as found:
        yield found


@pytest.fixture
def guest(connection: Connection, latin1: Connection, connect: Connect) -> Iterator[Connection]:
    """A session of the role müller in the test's database, which is in UTF8."""
    connection.execute("create role pgqpy_test_guest login in role pgq_writer, pgq_dashboard")
    session = connect(user="pgqpy_test_guest")
    latin1.execute("alter role pgqpy_test_guest rename to müller")
    yield session
    session.close()
    latin1.execute("drop role müller")


def test_doctor_names_a_transaction_of_such_a_role(examine: Examine, guest: Connection) -> None:
    guest.execute("begin; select pg_current_xact_id()")
    assert f"user {SHOWN}" in examine()[1]["transaction"][1]


def test_doctor_names_a_prepared_transaction_of_another_database(
    examine: Examine, latin1: Connection
) -> None:
    latin1.execute("begin; select pg_current_xact_id(); prepare transaction 'müller'")
    try:
        assert f"prepared transaction {SHOWN}" in examine()[1]["transaction"][1]
    finally:
        latin1.execute("rollback prepared 'müller'")


def test_doctor_names_such_a_role_that_may_hold_up_a_consumer(
    examine: Examine, client: pgqpy.Client, connection: Connection, guest: Connection
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    event = client.insert_event("orders", "type", "data")
    client.tick_queue("orders")
    age(connection, "16 minutes")
    guest.execute(f"begin; select pgq.cancel_event('orders', array[{event}::bigint])".encode())
    assert f"role {SHOWN}" in examine()[1]["running"][1]


def test_tickers_name_such_a_role_that_holds_their_locks(
    run: Run, dsn: str, client: pgqpy.Client, connection: Connection, guest: Connection
) -> None:
    client.create_queue("orders")
    guest.execute("select pg_advisory_lock(7366515, queue_id) from pgq.queue")
    skipped = SkippedQueues(0.0)
    skipped.check(connection, 1.0)
    (failure,) = skipped.check(connection, 2.0).failures
    assert f"role {SHOWN}" in str(failure.error)
    guest.execute("select pg_advisory_lock(7366513, 0)")
    assert f"role {SHOWN}" in run("ticker", "status", "--json").stdout.replace("\\\\", "\\")
    assert run("top", "--once").exit_code == 0
    ticker = Ticker(TickerSettings(dsns=(dsn,)))
    ticker.start()
    try:
        eventually(lambda: f"role {SHOWN}" in str(ticker.health()).replace("\\\\", "\\"))
    finally:
        ticker.stop()


def test_consumer_names_such_a_role_that_holds_its_lock(
    dsn: str, client: pgqpy.Client, guest: Connection
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    guest.execute("select pg_advisory_lock(7366514, sub_id) from pgq.subscription")

    class Billing(Consumer):
        queue, name = "orders", "billing"

        def process_event(self, event: pgqpy.Event) -> None:
            raise AssertionError

    with short_grace(), pytest.raises(ConsumerRunning) as caught:
        Billing(dsn).run()
    assert f"role {SHOWN}" in str(caught.value)


def test_refused_lock_names_such_a_role(connection: Connection, guest: Connection) -> None:
    connection.execute("grant all on pgq.tick to public")
    guest.execute("begin; lock table pgq.tick in access exclusive mode")
    try:
        (found,) = find_blockages(connection, refused=True)
    finally:
        guest.execute("rollback")
        connection.execute("revoke all on pgq.tick from public")
    assert f"role {SHOWN}" in str(found)


NOT_STORED = (
    "open_stage('orders', 'w', 1)",
    "commit_stage('orders', 'w', 1, '{}', 0)",
    "begin_change('a')",
)


@pytest.mark.parametrize("call", NOT_STORED)
def test_name_of_such_a_role_is_not_stored(
    client: pgqpy.Client, guest: Connection, call: str
) -> None:
    client.create_queue("orders")
    with refused("PQ009"):
        guest.execute(f"select pgq.{call}".encode())
