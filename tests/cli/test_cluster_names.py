r"""Names of the cluster that are no UTF-8: a role and a prepared transaction, made in LATIN1.

The session's role is renamed when it is connected: a client in UTF-8 cannot write its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

import pgqpy
from pgqpy.consumers import Consumer
from pgqpy.doctor import blockers
from pgqpy.doctor.blockers import find_blockages
from pgqpy.errors import ConsumerRunning
from pgqpy.install import status
from pgqpy.ticker import Ticker
from pgqpy.ticker.settings import TickerSettings
from tests.cli.support import Connect, Connection, Examine, Run
from tests.cli.test_doctor_running import age
from tests.consumers.harness import short_grace
from tests.guarantees.sessions import refused
from tests.support.databases import encoded_database
from tests.support.servers import Server
from tests.support.waiting import eventually

SHOWN = r"m\xfcller"
WITH_ITS_NAME = """
    do $$ begin
        execute format('{} %I', (select rolname from pg_roles where rolname like 'm%ller'));
    end $$
"""


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


def test_doctor_names_a_transaction_of_a_role_named_in_latin1(
    examine: Examine, guest: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockers, "BRIEF", timedelta(0))
    guest.execute("begin; select pg_current_xact_id()")
    assert f"user {SHOWN}" in examine()[1]["transaction"][1]


def test_doctor_names_a_prepared_transaction_of_another_database(
    examine: Examine, latin1: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockers, "BRIEF", timedelta(0))
    latin1.execute("begin; select pg_current_xact_id(); prepare transaction 'müller'")
    try:
        assert f"prepared transaction {SHOWN}" in examine()[1]["transaction"][1]
    finally:
        latin1.execute("rollback prepared 'müller'")


def test_doctor_names_a_role_named_in_latin1_that_may_hold_up_a_consumer(
    examine: Examine, client: pgqpy.Client, connection: Connection, guest: Connection
) -> None:
    client.create_queue("orders")
    client.register_consumer("orders", "billing")
    event = client.insert_event("orders", "type", "data")
    client.tick_queue("orders")
    age(connection, "16 minutes")
    guest.execute(f"begin; select pgq.cancel_event('orders', array[{event}::bigint])".encode())
    assert f"role {SHOWN}" in examine()[1]["running"][1]


def test_standby_names_a_role_named_in_latin1_that_keeps_it_waiting(
    dsn: str, guest: Connection
) -> None:
    guest.execute("select pg_advisory_lock(7366513, 0)")
    ticker = Ticker(TickerSettings(dsns=(dsn,)))
    ticker.start()
    try:
        eventually(lambda: ascii(SHOWN)[1:-1] in str(ticker.health()))
    finally:
        ticker.stop()


@pytest.mark.parametrize("command", [("ticker", "status"), ("top", "--once")])
def test_commands_show_a_role_named_in_latin1_that_holds_the_lock_of_tickers(
    run: Run, client: pgqpy.Client, guest: Connection, command: tuple[str, ...]
) -> None:
    client.create_queue("orders")
    guest.execute("select pg_advisory_lock(7366513, 0)")
    assert SHOWN in run(*command).stdout


@pytest.mark.parametrize("trusted", [False, True])
def test_schema_of_a_role_named_in_latin1_is_used_only_if_it_is_trusted(
    run: Run, connection: Connection, guest: Connection, trusted: bool
) -> None:
    what = ("schema pgq", f"database {connection.info.dbname}")[: 1 + trusted]
    for each in what:
        connection.execute(WITH_ITS_NAME.format(f"alter {each} owner to").encode())
    try:
        found = status(connection)
        result = run("queue", "list")
    finally:
        for each in what:
            connection.execute(f"alter {each} owner to current_user".encode())
    assert found.owner == SHOWN
    assert (found.untrusted is None) == trusted
    assert result.exit_code == (not trusted)
    assert (SHOWN in result.stderr) == (not trusted)


def test_consumer_names_a_role_named_in_latin1_that_holds_its_lock(
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


def test_refused_lock_names_a_role_named_in_latin1(
    connection: Connection, guest: Connection
) -> None:
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
def test_name_of_a_role_named_in_latin1_is_not_stored(
    client: pgqpy.Client, guest: Connection, call: str
) -> None:
    client.create_queue("orders")
    with refused("PQ009"):
        guest.execute(f"select pgq.{call}".encode())


@pytest.mark.parametrize("call", NOT_STORED)
def test_name_of_a_role_is_not_stored_in_sql_ascii_if_it_is_no_utf8(
    server: Server, latin1: Connection, connect: Connect, call: str
) -> None:
    with encoded_database(server, "SQL_ASCII") as dsn:
        with pgqpy.connect(dsn) as client:
            client.create_queue("orders")
        latin1.execute("create role müller login in role pgq_writer, pgq_dashboard")
        try:
            with connect(dsn) as session:
                session.execute(WITH_ITS_NAME.format("set role").encode())
                with refused("PQ009"):
                    session.execute(f"select pgq.{call}".encode())
        finally:
            latin1.execute("drop role müller")
