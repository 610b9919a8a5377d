"""Advisory locks held by other sessions: every login can take them, so they are reported."""

from __future__ import annotations

import socket
from threading import Thread

import pytest

from pgqpy.locks import Holder
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

STALE = "update pgq.tick set tick_time = tick_time - interval '1 hour'"
QUICK = {"health_limit": 1, "due_period": 0.1}


@pytest.fixture
def queue(client):
    client.create_queue("orders")
    return "orders"


@pytest.fixture
def stranger(connect, connection):
    """A session of a role without any right, by the name `mallory`."""
    connection.execute("create role pgqpy_test_stranger login")
    session = connect(user="pgqpy_test_stranger", application_name="mallory")
    yield session
    session.close()
    connection.execute("drop role pgqpy_test_stranger")


def unhealthy(daemon):
    status, body = daemon.healthz()
    ((_, database),) = body["databases"].items()
    return database["reason"] if status == 503 else None


def test_standby_of_a_holder_that_may_not_tick_is_unhealthy(start, dsn, queue, stranger):
    stranger.execute("select pg_advisory_lock(7366513, 0)")
    daemon = start(dsn, **QUICK)
    daemon.wait_for("standby")
    reason = eventually(lambda: unhealthy(daemon))
    pid = stranger.info.backend_pid
    for words in ("mallory", f"server process {pid}", "role pgqpy_test_stranger", "may not tick"):
        assert words in reason
    assert f"pg_terminate_backend({pid})" in daemon.wait_for("nobody ticks")["error"]
    assert 'pgq_errors_total{database="' in daemon.metrics()
    stranger.execute("select pg_advisory_unlock(7366513, 0)")
    daemon.wait_for("active")
    eventually(lambda: daemon.healthz()[0] == 200)


def test_standby_is_unhealthy_while_nobody_ticks(start, dsn, client, connection, connect, queue):
    holder = connect(application_name="hung")
    holder.execute("select pg_advisory_lock(7366513, 0)")
    daemon = start(dsn, **QUICK)
    daemon.wait_for("standby")
    eventually(lambda: daemon.healthz()[0] == 200)
    connection.execute(STALE)
    reason = eventually(lambda: unhealthy(daemon))
    assert "orders" in reason
    assert f"hung, server process {holder.info.backend_pid}" in reason
    assert "active" not in str(daemon.said("active"))
    client.tick_queue(queue)
    daemon.wait_for("another ticker works again")
    eventually(lambda: daemon.healthz()[0] == 200)


def test_standby_without_the_right_to_tick_logs_the_missing_role(
    start, dsn, connection, connect, queue
):
    connect().execute("select pg_advisory_lock(7366513, 0)")
    connection.execute("create role pgqpy_test_nobody login")
    try:
        daemon = start(f"{dsn} user=pgqpy_test_nobody")
        assert "pgq_ticker" in daemon.wait_for("reconnecting")["remedy"]
        assert daemon.healthz()[0] == 503
        daemon.stop()
    finally:
        connection.execute("drop role pgqpy_test_nobody")


def test_queue_that_is_left_out_counts_as_failing(start, dsn, client, connection, queue, stranger):
    client.create_queue("other")
    daemon = start(dsn, **QUICK)
    daemon.wait_for("active")
    stranger.execute("select pg_advisory_lock(7366515, 1)")
    failing = daemon.wait_for("queue failing", queue="orders")
    for words in ("(7366515, 1)", "mallory", "role pgqpy_test_stranger", "pg_terminate_backend"):
        assert words in failing["error"]
    status, body = daemon.healthz()
    assert (status, body["status"]) == (200, "degraded")
    assert "orders" in str(body)
    eventually(lambda: "pgq_ticker_failing_queues" in daemon.metrics())
    assert "} 1.0" in next(
        line
        for line in daemon.metrics().splitlines()
        if line.startswith("pgq_ticker_failing_queues{")
    )
    stranger.execute("select pg_advisory_unlock(7366515, 1)")
    daemon.wait_for("queue works again", queue="orders")
    eventually(lambda: daemon.healthz()[1]["status"] == "ok")
    assert len([line for line in daemon.log() if line["event"] == "queue failing"]) == 1


def test_queue_whose_lock_a_session_waits_for_names_that_session(
    start, dsn, client, connection, connect, queue, stranger
):
    """PostgreSQL refuses the shared lock to a ticker that comes after the request."""
    client.create_queue("other")
    daemon = start(dsn, **QUICK | {"due_period": 600})
    daemon.wait_for("active")
    reader = connect(application_name="reader")
    reader.execute("select pg_advisory_lock_shared(7366515, 1)")
    waits = Thread(target=stranger.execute, args=("select pg_advisory_lock(7366515, 1)",))
    waits.start()
    pid = stranger.info.backend_pid
    wait_until_blocked(connection, pid)
    try:
        failing = daemon.wait_for("queue failing", queue="orders")
        for words in ("(7366515, 1)", f"mallory, server process {pid}", "which waits for it"):
            assert words in failing["error"]
        assert f"pg_terminate_backend({pid})" in failing["error"]
        assert daemon.healthz()[1]["status"] == "degraded"
    finally:
        reader.close()
        waits.join()
    eventually(lambda: "is held by mallory" in str([each.get("error") for each in daemon.log()]))
    stranger.execute("select pg_advisory_unlock(7366515, 1)")
    daemon.wait_for("queue works again", queue="orders")


def test_prepared_transaction_with_an_odd_name_writes_no_line_of_its_own(
    start_process, dsn, connect, queue, tmp_path
):
    path = str(tmp_path / "notify")
    holder = connect(autocommit=False)
    holder.execute("select pg_advisory_xact_lock(7366513, 0)")
    holder.execute("prepare transaction E'a\\nMAINPID=1\\n\\x1b[2J'")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(30)
            daemon = start_process(dsn, env={"NOTIFY_SOCKET": path}, **QUICK)
            heard = b""
            while b"rollback prepared" not in heard:
                heard = manager.recv(4000)
                assert b"\nMAINPID" not in heard
            assert b"\x1b" not in heard
        assert "rollback prepared E'a\\u000aMAINPID=1" in eventually(lambda: unhealthy(daemon))
        daemon.process.kill()
    finally:
        holder.autocommit = True
        holder.execute("rollback prepared E'a\\nMAINPID=1\\n\\x1b[2J'")


def test_lock_of_a_prepared_transaction_is_named(start, dsn, connect, queue):
    holder = connect(autocommit=False)
    holder.execute("select pg_advisory_xact_lock(7366515, 1)")
    holder.execute("prepare transaction 'mallory''s'")
    try:
        daemon = start(dsn, **QUICK)
        failing = daemon.wait_for("queue failing", queue="orders")
        assert "prepared transaction" in failing["error"]
        assert "rollback prepared 'mallory''s'" in failing["error"]
        daemon.stop()
    finally:
        holder.autocommit = True
        holder.execute("rollback prepared 'mallory''s'")


@pytest.mark.parametrize(
    "name", ["a", "it's", "x\\'; drop table t; --", "\u00e9\n", "\U0001f600", "\\"]
)
@pytest.mark.parametrize("conforming", ["on", "off"])
def test_the_name_of_a_prepared_transaction_is_a_literal_in_every_session(
    connection, name, conforming
):
    """An operator pastes the statement. Anybody may prepare a transaction of any name."""
    connection.execute(f"set standard_conforming_strings = {conforming}")
    command = Holder(None, "mallory", prepared=name).how_to_end
    literal = command.removeprefix("rollback prepared ")
    assert connection.execute(f"select {literal}").fetchall() == [(name,)]
