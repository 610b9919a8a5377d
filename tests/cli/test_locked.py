"""Commands end, and name the sessions, while all others wait for a table of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import psycopg
import pytest

from pgqpy.cli import options
from tests.cli.support import Connect, Connection, Examine, Run, failed_with
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

OF_QUEUES = (
    ("queue", "list"),
    ("queue", "show", "orders"),
    ("queue", "create", "orders"),
    ("consumer", "list"),
    ("consumer", "show", "orders", "billing"),
    ("consumer", "register", "orders", "billing"),
    ("event", "insert", "orders", "placed"),
    ("event", "peek", "orders"),
    ("event", "dead", "orders", "billing"),
    ("schema", "repair"),
)
WAITED = """
    select count(*) > 0 from pg_locks
    where not granted and waitstart < clock_timestamp() - interval '2 s'
"""
Ask = Callable[[str], tuple[Connection, Connection]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "LOCK_TIMEOUT", "50ms")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=20s")  # it fails rather than hangs


@pytest.fixture
def ask(connect: Connect, connection: Connection) -> Iterator[Ask]:
    """Two sessions of a role without rights: a reader of a table, who waits for its lock."""
    connection.execute("create role pgqpy_test_stranger login")
    threads: list[Thread] = []
    sessions: list[Connection] = []

    def asker(table: str) -> tuple[Connection, Connection]:
        login: dict[str, Any] = {"user": "pgqpy_test_stranger", "options": ""}
        reader = connect(application_name="reader", autocommit=False, **login)
        reader.execute(f"select from {table} where false".encode())
        rider = connect(application_name="rider", **login)
        sessions.extend((reader, rider))
        threads.append(Thread(target=create_rule, args=(rider, table)))
        threads[-1].start()
        wait_until_blocked(connection, rider.info.backend_pid)
        return reader, rider

    yield asker
    for each in sessions:
        connection.execute("select pg_terminate_backend(%s, 5000)", [each.info.backend_pid])
    for thread in threads:
        thread.join()
    for info in connection.execute("select queue_name from pgq.queue").fetchall():
        connection.execute("select pgq.drop_queue(%s, true)", info)
    connection.execute("drop role pgqpy_test_stranger")


def create_rule(session: Connection, table: str) -> None:
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.OperationalError)):
        session.execute(f"create rule r as on insert to {table} do also nothing".encode())


def words(table: str, reader: Connection, rider: Connection) -> tuple[str, ...]:
    root, head = reader.info.backend_pid, rider.info.backend_pid
    return (
        f"all wait for {table}: rider, server process {head}, role pgqpy_test_stranger",
        f"asks for AccessExclusiveLock and waits for reader, server process {root}, role pgqpy",
        f"select pg_terminate_backend({root}) or select pg_terminate_backend({head})",
    )


@pytest.mark.parametrize("command", OF_QUEUES, ids=" ".join)
def test_command_names_the_sessions_that_all_wait_for(
    run: Run, ask: Ask, command: tuple[str, ...]
) -> None:
    sessions = ask("pgq.queue")
    assert failed_with(run(*command), 1, *words("pgq.queue", *sessions))


def test_ticker_status_names_the_sessions_that_all_wait_for(run: Run, ask: Ask) -> None:
    sessions = ask("pgq.queue")
    result = run("ticker", "status")
    assert result.exit_code == 1
    for each in words("pgq.queue", *sessions):
        assert each in result.stderr


@pytest.mark.parametrize("table", ["pgq.queue", "pgq.position", "pgq.tick"])
def test_first_finding_of_doctor_is_the_table_that_all_wait_for(
    run: Run, ask: Ask, table: str
) -> None:
    run("queue", "create", "orders")
    sessions = ask(table)
    result = run("doctor")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("fail     lock")
    for each in words(table, *sessions):
        assert each in first


def test_doctor_finds_a_lock_that_it_does_not_wait_for(
    examine: Examine, run: Run, ask: Ask, connection: Connection
) -> None:
    run("queue", "create", "orders")
    ((table,),) = connection.execute("select queue_data_pfx from pgq.queue").fetchall()
    connection.execute(f"grant select on {table} to pgqpy_test_stranger".encode())
    assert "lock" not in examine()[1]
    sessions = ask(table)
    eventually(lambda: connection.execute(WAITED).fetchone() == (True,))
    level, said = examine()[1]["lock"]
    assert level == "fail"
    for each in words(table, *sessions):
        assert each in said


@pytest.mark.parametrize(
    "command", [("queue", "list"), ("consumer", "list"), ("event", "peek", "orders")], ids=" ".join
)
def test_command_names_the_sessions_that_lock_pg_inherits(
    run: Run, ask: Ask, command: tuple[str, ...]
) -> None:
    run("queue", "create", "orders")
    sessions = ask("pg_inherits")
    assert failed_with(run(*command), 1, *words("pg_catalog.pg_inherits", *sessions))


@pytest.mark.parametrize("table", ["pg_proc", "pg_namespace", "pg_type"])
def test_command_says_where_to_look_while_it_gets_no_session(
    run: Run, connect: Connect, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr("pgqpy.client._sync.open.LOCK_TIMEOUT", "50ms")
    locker = connect(autocommit=False)
    locker.execute(f"lock table {table} in access exclusive mode".encode())
    result = run("queue", "list")
    locker.rollback()
    assert failed_with(result, 1, "all wait for a system catalogue", "from another database")


def test_first_finding_of_doctor_is_a_lock_on_pg_inherits(run: Run, ask: Ask) -> None:
    run("queue", "create", "orders")
    sessions = ask("pg_inherits")
    result = run("doctor")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("fail     lock")
    for each in words("pg_catalog.pg_inherits", *sessions):
        assert each in first


def test_session_that_holds_the_lock_is_named_alone(
    run: Run, examine: Examine, connect: Connect
) -> None:
    with connect(application_name="locker", autocommit=False) as locker:
        locker.execute("lock table pgq.queue in access exclusive mode")
        end = f"select pg_terminate_backend({locker.info.backend_pid})"
        result = run("queue", "list")
        assert failed_with(result, 1, "all wait for pgq.queue: locker", "holds Access", end)
        assert " or " not in result.stderr
        level, said = examine()[1]["lock"]
        assert level == "fail"
        assert end in said
        locker.rollback()


def test_root_of_the_lock_queue_is_named_whatever_it_waits_for(
    run: Run, connect: Connect, connection: Connection
) -> None:
    with (
        connect(application_name="root", autocommit=False) as root,
        connect(application_name="locker", autocommit=False) as locker,
    ):
        root.execute("select pg_advisory_xact_lock(4711)")
        locker.execute("lock table pgq.queue, pgq.tick in access exclusive mode")
        waits = Thread(target=locker.execute, args=("select pg_advisory_xact_lock(4711)",))
        waits.start()
        wait_until_blocked(connection, locker.info.backend_pid)
        result = run("queue", "list")
        root.rollback()
        waits.join()
        locker.rollback()
    text = "holds AccessExclusiveLock and waits for root, server process"
    assert failed_with(result, 1, "all wait for pgq.queue, pgq.tick, pgq.tick_recent: locker", text)


def test_prepared_transaction_that_all_wait_for_is_named(
    run: Run, connect: Connect, connection: Connection
) -> None:
    locker = connect(autocommit=False)
    locker.execute("lock table pgq.queue in access exclusive mode")
    locker.execute("prepare transaction 'forgotten'")
    try:
        result = run("queue", "list")
        named = "prepared transaction 'forgotten'"
        assert failed_with(result, 1, named, "rollback prepared 'forgotten'")
    finally:
        connection.execute("rollback prepared 'forgotten'")


def test_row_lock_is_reported_without_a_table(run: Run, connect: Connect) -> None:
    run("queue", "create", "orders")
    with connect(autocommit=False) as locker:
        locker.execute("select from pgq.queue for update")
        result = run("queue", "set", "orders", "ticker_paused=true")
        assert failed_with(result, 1, "lock timeout", "pg_stat_activity")
        locker.rollback()
