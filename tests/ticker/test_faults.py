"""Failures of one queue, database or session, and locks of others: everything else goes on."""

from __future__ import annotations

from itertools import product

import pytest
import structlog

import pgqpy
from pgqpy import calls, install
from pgqpy.locks import LockOwner
from pgqpy.ticker import Ticker
from pgqpy.ticker.settings import TickerSettings
from tests.support.gates import shut_gate
from tests.support.waiting import eventually
from tests.ticker.harness import delivered


def ticks(client, queue="orders"):
    return client.get_queue_info(queue)[0].last_tick_id


def assert_ticking(client, queue="orders"):
    before = ticks(client, queue)
    client.insert_event(queue, "t", "1")
    eventually(lambda: ticks(client, queue) > before)


def test_standby_holds_no_snapshot(start, dsn, connection):
    start(dsn).wait_for("active")
    start(f"{dsn} application_name=standby").wait_for("standby")
    # One that waits for the lock inside a statement is never idle.
    session = (
        "select state, backend_xmin::text from pg_stat_activity"
        " where application_name = 'standby' and datname = current_database()"
    )
    eventually(lambda: connection.execute(session).fetchall() == [("idle", None)])


def test_transaction_open_at_a_kill_is_ticked_by_the_standby_that_takes_over(
    start, start_process, dsn, client, queue, connect
):
    first = start_process(dsn)
    first.wait_for("active")
    second = start(dsn)
    second.wait_for("standby")
    assert second.healthz()[0] == 200
    with connect(autocommit=False) as app:
        app.execute("select pgq.insert_event('orders', 't', 'late')")
        client.insert_event(queue, "t", "early")
        eventually(lambda: client.get_queue_info(queue)[0].ev_new == 0)
        first.process.kill()
        app.commit()
    second.wait_for("active")
    eventually(lambda: "late" in delivered(client))


def test_database_without_schema_does_not_stop_the_other(start, dsn, empty_dsn, client, queue):
    daemon = start(empty_dsn, dsn)
    daemon.wait_for("active")
    refused = daemon.wait_for("database refused")
    assert "schema install" in refused["error"]
    assert daemon.healthz()[0] == 503
    assert_ticking(client)


def test_newer_schema_is_refused(start, dsn, connection):
    connection.execute("update pgq.installation set version = version + 1")
    daemon = start(dsn)
    assert "pip install --upgrade" in daemon.wait_for("database refused")["error"]
    assert daemon.healthz()[0] == 503


def test_real_extension_is_refused_by_name(start, extension_dsn):
    assert "pgqd" in start(extension_dsn).wait_for("database refused")["error"]


def test_queue_that_fails_does_not_stop_the_others(start, dsn, client, connection, queue):
    client.create_queue("other")
    connection.execute("drop sequence pgq.event_1_tick_seq cascade")
    daemon = start(dsn)
    failing = daemon.wait_for("queue failing", queue="orders", sqlstate="42P01")
    assert "drop the queue" in failing["remedy"]
    assert_ticking(client, "other")
    assert "pgq_errors_total{database=" in daemon.metrics()
    eventually(lambda: "orders" in str(daemon.healthz()[1]))


def test_restored_queue_is_logged_with_what_to_do(start, dsn, client, connection, queue):
    client.create_queue("other")
    connection.execute(
        "update pgq.tick set tick_snapshot = '999999999:999999999:' where tick_queue = 1"
    )
    daemon = start(dsn)
    failing = daemon.wait_for("queue failing", queue="orders", sqlstate="PQ012")
    assert "repair" in failing["remedy"]
    assert_ticking(client, "other")
    client.call(calls.admin.repair_queue("orders"))
    daemon.wait_for("queue works again", queue="orders")
    assert_ticking(client)


def test_role_without_rights_is_logged_with_the_missing_role(start, dsn, login):
    daemon = start(f"{dsn} user={login()}")
    eventually(lambda: "pgq_ticker" in remedies(daemon))
    # A session that never worked is no lost one, after which it would connect again at once.
    daemon.wait_for("reconnecting")
    assert not daemon.said("active")
    assert not daemon.said("session failed")
    daemon.stop()


def remedies(daemon):
    return " ".join(line.get("remedy", "") for line in daemon.log())


def test_role_pgq_ticker_is_enough(start, dsn, client, login, queue):
    client.set_queue_config(queue, "rotation_period", "0.001 s")
    daemon = start(
        f"{dsn} user={login('pgq_ticker')}",
        maint_period=0.1,
        retry_period=0.1,
        gauge_period=0.1,
    )
    daemon.wait_for("active")
    client.unregister_consumer(queue, "billing")
    assert_ticking(client)
    eventually(lambda: "pgq_new_events{" in daemon.metrics())
    assert_ticking(client)
    daemon.wait_for("rotated")
    daemon.stop()
    assert not [line for line in daemon.log() if line["level"] in ("error", "warning")]


def test_settings_of_the_role_do_not_break_it(start, dsn, client, connection, queue, login):
    odd = login()
    connection.execute(f"alter role {odd} superuser")
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "statement_timeout = '1ms'",
        "idle_session_timeout = '10ms'",
    ):
        connection.execute(f"alter role {odd} set {setting}")
    daemon = start(f"{dsn} user={odd}")
    daemon.wait_for("active")
    assert_ticking(client)
    daemon.stop()
    assert not daemon.said("connection lost")


def test_killed_backend_is_replaced(start, dsn, client, connection, queue):
    daemon = start(dsn)
    daemon.wait_for("active")
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'pgqpy ticker' and datname = current_database()"
    )
    daemon.wait_for("connection lost")
    eventually(lambda: [line["event"] for line in daemon.log()].count("active") == 2)
    assert_ticking(client)


def test_server_restart_is_survived_and_shown(start, own_server):
    with pgqpy.connect(own_server.dsn()) as client:
        install.install(client.connection)
        client.create_queue("orders")
    daemon = start(own_server.dsn())
    eventually(lambda: daemon.healthz()[0] == 200)
    own_server.stop("immediate")
    eventually(lambda: daemon.healthz()[0] == 503)
    own_server.start()
    eventually(lambda: daemon.healthz()[0] == 200)
    with pgqpy.connect(own_server.dsn()) as client:
        assert_ticking(client)


def test_duty_that_does_not_end_is_logged(dsn, client, connection, connect, queue, monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.web.SLOW_DUTY", 0.05)
    settings = TickerSettings(dsn=dsn, maint_period=0.1, log_format="json")
    with shut_gate(connect()) as gate, structlog.testing.capture_logs() as said:
        connection.execute(
            f"""create or replace function pgq.maint_recent_ticks() returns int
            language plpgsql as $$ begin {gate.wait_sql.replace("select", "perform")};
            return 0; end $$"""
        )
        ticker = Ticker(settings, log=structlog.get_logger())
        ticker.start()
        try:
            gate.wait_for_arrival()
            status, body = eventually(lambda: slow_maintenance(ticker))
            assert (status, body["status"]) == (200, "degraded")
            eventually(lambda: [each for each in said if each["event"] == "duty does not end"])
            gate.open()
            eventually(lambda: ticker.health()[1]["status"] == "ok")
        finally:
            ticker.stop()


def slow_maintenance(ticker):
    """Return the health once it lists the duty; a busy machine may make others slow, too."""
    status, body = ticker.health()
    (database,) = body["databases"].values()
    return (status, body) if "maint" in database["slow_duties"] else None


def test_queue_whose_sequence_stays_locked_is_logged_and_works_again(
    start, dsn, client, connect, queue, monkeypatch
):
    monkeypatch.setattr("pgqpy.ticker.tick.LONGEST_PAUSE", 0.3)
    client.create_queue("other")
    daemon = start(dsn)
    daemon.wait_for("active")
    with connect(autocommit=False) as admin:
        admin.execute("alter sequence pgq.event_1_id_seq cache 1")
        failing = daemon.wait_for("queue failing", queue="orders", sqlstate="55P03")
        assert "pgqpy doctor" in failing["remedy"]
        assert_ticking(client, "other")
        status, body = daemon.healthz()
        assert (status, body["status"]) == (200, "degraded")
    client.insert_event(queue, "t", "1")
    daemon.wait_for("queue works again", queue="orders")
    assert not daemon.said("session failed")


@pytest.fixture
def stranger(connect, login):
    """A session of a role without any right, by the name `mallory`."""
    return connect(user=login(), application_name="mallory")


def test_standby_names_the_holder_of_the_lock(start, dsn, stranger):
    stranger.execute("select pg_advisory_lock(7366513, 0)")
    daemon = start(dsn)
    reason = daemon.wait_for("standby")["reason"]
    pid = stranger.info.backend_pid
    for words in ("mallory", f"server process {pid}", f"role {stranger.info.user}"):
        assert words in reason
    assert daemon.healthz()[1]["status"] == "ok"
    stranger.execute("select pg_advisory_unlock(7366513, 0)")
    daemon.wait_for("active")


NAMES = ["a", "it's", "x\\'; drop table t; --", "\u00e9\n", "\U0001f600", "\\"]


def test_the_name_of_a_prepared_transaction_is_a_literal_in_every_session(connection):
    """An operator pastes the statement. Anybody may prepare a transaction of any name."""
    for conforming, name in product(("on", "off"), NAMES):
        connection.execute(f"set standard_conforming_strings = {conforming}")
        command = LockOwner(None, "mallory", prepared=name).how_to_end
        literal = command.removeprefix("rollback prepared ")
        assert connection.execute(f"select {literal}").fetchall() == [(name,)]
