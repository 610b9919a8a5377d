"""A lock on a table of the engine stops every queue: the daemon names the sessions to end."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread

import psycopg
import pytest

from pgqpy import table_locks
from pgqpy.table_locks import find_blockages
from pgqpy.ticker import periodic
from tests.support.gates import BLOCKED_SQL, wait_until_blocked
from tests.support.servers import FAST, other_programs, private_server
from tests.support.waiting import eventually

QUICK = {"health_limit": 1, "due_period": 0.1}


@pytest.fixture
def stranger(connection):
    connection.execute("create role pgqpy_test_stranger login")
    yield {"user": "pgqpy_test_stranger"}
    connection.execute("drop role pgqpy_test_stranger")


@contextmanager
def all_wait_for(table, connect, connection, stranger):
    """A request for the table's lock, by a session without rights, behind one of its own.

    A table without a schema is a system catalogue.
    """
    name = table if "." in table else f"pg_catalog.{table}"
    reader = connect(application_name="reader", autocommit=False, **stranger)
    reader.execute(f"select from {table} where false")
    rider = connect(application_name="rider", **stranger)
    asks = Thread(target=create_rule, args=(rider, table))
    asks.start()
    root, head = reader.info.backend_pid, rider.info.backend_pid
    wait_until_blocked(connection, head)
    try:
        yield (
            f"all wait for {name}: rider, server process {head}, role pgqpy_test_stranger",
            f"reader, server process {root}, role pgqpy_test_stranger",
            f"select pg_terminate_backend({root}) or select pg_terminate_backend({head})",
        )
    finally:
        reader.close()
        asks.join()
        rider.close()


def create_rule(session, table):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute(f"create rule r as on insert to {table} do also nothing")


def has(text, words):
    return all(each in str(text) for each in words)


def test_lock_that_stops_the_daemon_is_named(start, dsn, queue, connect, connection, stranger):
    daemon = start(dsn, **QUICK)
    daemon.wait_for("active")
    with all_wait_for("pgq.queue", connect, connection, stranger) as words:
        eventually(lambda: has([line.get("error") for line in daemon.log()], words))

        def unhealthy():
            status, body = daemon.healthz()
            ((_, database),) = body["databases"].items()
            return status == 503 and has(database["reason"], words)

        eventually(unhealthy)
    eventually(lambda: daemon.healthz()[0] == 200)
    assert "all wait for" not in str(daemon.healthz())


def test_lock_that_stops_the_ticks_is_named(start, dsn, queue, connect, connection, stranger):
    daemon = start(dsn, **QUICK)
    daemon.wait_for("active")
    with all_wait_for("pgq.tick", connect, connection, stranger) as words:
        connection.execute("select pgq.insert_event('orders', 'placed', '')")
        failing = daemon.wait_for("queue failing", queue="orders")
        assert has(failing["error"], words)

        def degraded():
            status, body = daemon.healthz()
            ((_, database),) = body["databases"].items()
            return (status, body["status"]) == (200, "degraded") and has(database["reason"], words)

        eventually(degraded)
    daemon.wait_for("queue works again", queue="orders")
    eventually(lambda: daemon.healthz()[1]["status"] == "ok")
    assert "all wait for" not in str(daemon.healthz())


@pytest.mark.parametrize("table", ["pgq.position", "pg_inherits"])
def test_lock_that_stops_a_duty_is_named(
    start, dsn, queue, connect, connection, stranger, monkeypatch, table
):
    monkeypatch.setitem(periodic.DUTY_SETTINGS, "lock_timeout", "50ms")
    daemon = start(dsn, gauge_period=0.1)
    daemon.wait_for("active")
    with all_wait_for(table, connect, connection, stranger) as words:
        failing = daemon.wait_for("duty failing", duty="gauges")
        assert has(failing["error"], words)
        eventually(lambda: failing_duties(daemon) == ("degraded", ["gauges"]))
    eventually(lambda: failing_duties(daemon) == ("ok", []))


def failing_duties(daemon):
    status, body = daemon.healthz()
    ((_, database),) = body["databases"].items()
    return body["status"] if status == 200 else status, database["failing_duties"]


@pytest.fixture(scope="module")
def quiet_dsn():
    """A server without other sessions: their changes would reset the catalogue caches of ours."""
    with private_server({**FAST, "autovacuum": "off"}, other_programs()) as server:
        yield server.dsn()


@pytest.fixture
def quiet(quiet_dsn, connect):
    """A session there, and the arguments that connect a stranger."""
    other = connect(quiet_dsn)
    other.execute("create role pgqpy_test_stranger login")
    other.execute(BLOCKED_SQL, [0])  # its catalogues are read now, not behind the lock
    yield other, {"dsn": quiet_dsn, "user": "pgqpy_test_stranger"}
    other.execute("drop role pgqpy_test_stranger")


@pytest.fixture
def session(quiet_dsn, connect):
    return connect(quiet_dsn, options="-c lock_timeout=100ms")


@pytest.mark.parametrize("table", ["pg_class", "pg_attribute", "pg_namespace"])
def test_locked_catalogue_is_named_in_a_session_that_is_open(session, quiet, connect, table):
    """pg_class among them, which a query on the views pg_locks and pg_stat_activity may read."""
    session.execute(table_locks.CATALOGUE_BLOCKAGES, [False])  # caches the catalogues
    with all_wait_for(table, connect, *quiet) as words:
        (found,) = find_blockages(session, refused=True)
    assert has(f"{found}: {found.how_to_end}", words)


def test_catalogue_that_even_the_query_for_locks_needs_is_to_be_looked_for_elsewhere(
    session, quiet, connect, monkeypatch
):
    monkeypatch.setattr(table_locks, "CATALOGUE_BLOCKAGES", table_locks.BLOCKAGES)  # reads pg_class
    with all_wait_for("pg_class", connect, *quiet):
        error = table_locks.table_locked(session)
    assert table_locks.LOOK_ELSEWHERE in str(error)
