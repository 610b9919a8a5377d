"""Sessions of tasks: checked by psycopg, opened by ADBC, and ended with the task."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgqpy.errors import ConnectionFailed
from pgqpy.spark import connections
from pgqpy.spark.connections import Database
from pgqpy.spark.source.read_task import ArrowSession, open_with_retries
from tests.consumers.harness import installed
from tests.spark.feed import read
from tests.support import poolers
from tests.support.waiting import eventually

READERS = "select count(*) from pg_stat_activity where application_name = 'pgqpy spark orders'"


@pytest.fixture
def impatient(monkeypatch):
    """Let nobody wait for a server that is not there."""
    monkeypatch.setattr(connections, "RETRY_TIMEOUT", 0.0)


def test_no_server_is_said_in_one_line(impatient):
    database = Database("host=127.0.0.1 port=1 user=u password=geheim dbname=d")
    with pytest.raises(ConnectionFailed) as caught:
        open_with_retries(database, "orders")
    assert "check that the server runs" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_password_is_not_tried_again_and_not_printed(own_server):
    database = Database(make_conninfo(own_server.tcp_dsn(), password="geheim"))
    tries = []

    def attempt():
        tries.append(1)
        return connections.connect(database, "orders")

    with pytest.raises(ConnectionFailed) as caught:
        connections.with_retries(attempt)
    assert len(tries) == 1
    assert "check user, password and database" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_server_that_restarts_is_waited_for(own_server):
    database = Database(installed(own_server))
    own_server.stop()
    starter = threading.Timer(0.5, own_server.start)
    starter.start()
    open_with_retries(database, "orders").close()
    starter.join()


@pytest.fixture
def session(dsn):
    """A session of a task."""
    with closing(open_with_retries(Database(dsn), "orders")) as session:
        yield session


def test_a_query_that_nobody_reads_to_its_end_is_cancelled(session, connection):
    rows = "select repeat('x', 1000) from generate_series(1, 1100)"
    batches = session.batches(f"{rows} union all select pg_sleep(3600)::text")
    next(batches)
    batches.close()
    session.close()
    eventually(lambda: connection.execute(READERS).fetchone() == (0,))


def test_a_session_that_reads_cannot_write(session):
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match=r"^cannot execute CREATE"):
        session.execute("create table written ()")


def test_the_server_that_was_checked_is_the_one_that_is_read(feed):
    feed.insert("a")
    named = conninfo_to_dict(feed.dsn)
    hosts, ports = f"/nowhere,{named['host']}", f"1,{named['port']}"
    several = make_conninfo(feed.dsn, host=hosts, port=ports, target_session_attrs="read-write")
    assert [row["ev_data"] for row in read(feed.batch(dsn=several))] == ["a"]


@pytest.mark.skipif(poolers.PGBOUNCER is None, reason=poolers.WHY_SKIPPED)
def test_a_pooler_which_drops_settings_is_refused(feed):
    feed.insert("a")
    with poolers.pgbouncer(feed.dsn, "session") as pooled:
        reader = feed.batch(dsn=pooled)
        with pytest.raises(ConnectionFailed, match="connect directly to the server"):
            read(reader)


def test_a_failed_connection_of_adbc_does_not_print_the_password():
    with pytest.raises(psycopg.OperationalError, match="port 1 failed") as caught:
        ArrowSession("host=127.0.0.1 port=1 user=u password=geheim dbname=d")
    assert "geheim" not in str(caught.value)
