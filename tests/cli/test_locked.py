"""While all wait for a table of the engine, doctor names the sessions and commands end."""

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
    ("queue", "create", "orders"),
    ("consumer", "list"),
    ("event", "list", "orders"),
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


def first_finding(run: Run, *said: str) -> str:
    result = run("doctor")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("fail     lock")
    for each in said:
        assert each in first
    return str(first)


@pytest.mark.parametrize("command", OF_QUEUES, ids=" ".join)
def test_command_does_not_wait_for_long_and_sends_to_doctor(
    run: Run, ask: Ask, command: tuple[str, ...]
) -> None:
    ask("pgq.queue")
    assert failed_with(run(*command), 1, "pgqpy doctor")


@pytest.mark.parametrize("table", ["pgq.queue", "pgq.tick"])
def test_first_finding_of_doctor_is_the_table_that_all_wait_for(
    run: Run, ask: Ask, table: str
) -> None:
    run("queue", "create", "orders")
    sessions = ask(table)
    first_finding(run, *words(table, *sessions))


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


def test_session_or_prepared_transaction_that_holds_the_lock_is_named_alone(
    run: Run, connect: Connect, connection: Connection
) -> None:
    with connect(application_name="locker", autocommit=False) as locker:
        locker.execute("lock table pgq.queue in access exclusive mode")
        end = f"select pg_terminate_backend({locker.info.backend_pid})"
        first = first_finding(run, "all wait for pgq.queue: locker", "holds Access", end)
        assert " or " not in first
        locker.execute("prepare transaction 'forgotten'")
        try:
            first_finding(run, "prepared transaction 'forgotten'", "rollback prepared 'forgotten'")
        finally:
            connection.execute("rollback prepared 'forgotten'")


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
        text = "holds AccessExclusiveLock and waits for root, server process"
        first_finding(run, "all wait for pgq.queue, pgq.tick, pgq.tick_recent: locker", text)
        root.rollback()
        waits.join()
        locker.rollback()


def test_row_lock_is_reported_without_a_table(run: Run, connect: Connect) -> None:
    run("queue", "create", "orders")
    with connect(autocommit=False) as locker:
        locker.execute("select from pgq.queue for update")
        result = run("queue", "set", "orders", "ticker_paused=true")
        assert failed_with(result, 1, "lock timeout", "pgqpy doctor")
        locker.rollback()
