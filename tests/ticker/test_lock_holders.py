"""Advisory locks held by other sessions: every login can take them, so they are reported."""

from __future__ import annotations

import socket

import pytest

from pgqpy.locks import Holder
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
