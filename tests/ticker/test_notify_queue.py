"""A COMMIT with NOTIFY fails with a full queue, and may wait for others: ticks do without it."""

from __future__ import annotations

from threading import Event, Thread

import psycopg
import pytest

import pgqpy
from pgqpy import install
from pgqpy.ticker import statements
from tests.support.waiting import eventually

PAGE = 8192  # bytes
INSERT_TICK = "select pg_get_functiondef('pgq.insert_tick'::regproc)"
USAGE = "select pg_notification_queue_usage()"
FILL = f"select pg_notify('app', repeat('x', {PAGE - 300}) || %s)"


@pytest.fixture
def sleeper(connect):
    """Open a session that listens and then stays in a transaction: the queue keeps everything."""

    def opener(dsn=None):
        session = connect(dsn)
        session.execute("listen app")
        session.execute("begin")
        session.execute("select 1")
        return session

    return opener


@pytest.fixture
def small_queue(own_server):
    """A server whose NOTIFY queue has 64 pages, and its client."""
    with pgqpy.connect(own_server.dsn()) as client:
        if client.connection.info.server_version < 170000:
            pytest.skip("before PostgreSQL 17 the NOTIFY queue always has 8 GB")
        client.connection.execute("alter system set max_notify_queue_pages = 64")
    own_server.stop()
    own_server.start()
    with pgqpy.connect(own_server.dsn()) as client:
        install.install(client.connection)
        client.create_queue("orders")
        yield client


def fill(connection):
    """Send notifications until the queue is full."""
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):  # whichever is one too many
        for number in range(100):
            connection.execute(FILL, [number])


def ticks(client):
    return client.get_queue_info("orders")[0].last_tick_id


def notified(session):
    return list(session.notifies(timeout=0, stop_after=1))


def test_daemon_ticks_and_warns_while_the_notify_queue_is_full(
    start, own_server, small_queue, sleeper, connect
):
    client = small_queue
    listener = connect(own_server.dsn())
    listener.execute("listen pgq_orders")
    session = sleeper(own_server.dsn())
    daemon = start(own_server.dsn(), gauge_period=0.1)
    daemon.wait_for("active")
    eventually(lambda: client.get_queue_info("orders")[0].ev_new == 0)
    fill(client.connection)
    before = ticks(client)
    client.insert_event("orders", "t", "1")
    eventually(lambda: ticks(client) > before)
    said = daemon.wait_for("NOTIFY queue full, ticks not announced")
    assert "transaction" in said["remedy"]
    assert not daemon.said("queue failing")
    eventually(lambda: "pgq_notify_queue_usage_ratio{" in daemon.metrics())
    notified(listener)
    session.close()
    daemon.wait_for("ticks are announced again")
    client.insert_event("orders", "t", "2")
    eventually(lambda: notified(listener))


def test_full_notify_queue_is_emptied_by_the_next_tick(client, connection, connect, sleeper):
    """With the limit put so low that a few pages count as full: on every version."""
    (source,) = connection.execute(INSERT_TICK).fetchone()
    assert "< 0.9 " in source
    connection.execute(source.replace("< 0.9 ", "< 0.000001 "))
    client.create_queue("orders")
    listener = connect()
    listener.execute("listen pgq_orders")
    session = sleeper()
    for number in range(20):
        connection.execute(FILL, [number])
    assert client.tick_queue("orders") is not None
    connection.execute("select pgq.force_tick('orders')")
    assert notified(listener) == []
    session.close()

    def announced():
        client.tick_queue("orders")
        return notified(listener)

    eventually(announced)
    assert connection.execute(USAGE).fetchone() == (0,)


def test_daemon_ticks_while_the_notify_of_another_waits_for_a_standby(
    start, own_server, connect, monkeypatch
):
    monkeypatch.setattr(statements, "QUIET", 0.2)
    dsn = own_server.dsn()
    admin, waiting, listener = connect(dsn), connect(dsn), connect(dsn)
    admin.execute("set synchronous_commit = local")
    install.install(admin)
    client = pgqpy.Client(admin)
    client.create_queue("orders")
    listener.execute("listen pgq_orders")
    daemon = start(dsn)
    daemon.wait_for("active")
    admin.execute("alter system set synchronous_standby_names = 'nobody'")
    admin.execute("select pg_reload_conf()")
    pid = waiting.info.backend_pid
    over = Event()

    def notify():  # until the server has read the setting, a COMMIT does not wait
        while not over.is_set():
            waiting.execute(
                "begin; create temp table written () on commit drop; notify app; commit"
            )

    thread = Thread(target=notify)
    thread.start()
    try:
        event = "select wait_event from pg_stat_activity where pid = %s"
        eventually(lambda: admin.execute(event, [pid]).fetchone() == ("SyncRep",))
        before = ticks(client)
        client.insert_event("orders", "t", "1")
        eventually(lambda: ticks(client) > before)
        assert not daemon.said("queue failing")
        assert not daemon.said("session failed")
    finally:
        over.set()
        admin.execute("alter system reset synchronous_standby_names")
        admin.execute("select pg_reload_conf()")
        thread.join()
    notified(listener)

    def announced():
        client.insert_event("orders", "t", "2")
        return notified(listener)

    eventually(announced)
