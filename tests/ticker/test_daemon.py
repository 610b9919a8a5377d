"""The daemon as a process: ticks, log, health, metrics, stopping, the service manager."""

from __future__ import annotations

import errno
import re
import signal
import socket
from contextlib import suppress

import pytest
from click.testing import CliRunner

import pgqpy
from pgqpy import install
from pgqpy.cli.app import app
from pgqpy.ticker import Ticker, run
from pgqpy.ticker.settings import TickerSettings
from pgqpy.ticker.web import address
from tests.support.waiting import eventually
from tests.ticker.harness import delivered

SESSIONS = (
    "select count(*) from pg_stat_activity"
    " where application_name = 'pgqpy ticker' and datname = current_database()"
)


@pytest.fixture
def listener(connect):
    connection = connect()
    connection.execute('listen "pgq_orders"')
    return connection


def test_new_event_is_ticked_and_notified(start, dsn, client, queue, listener):
    daemon = start(dsn)
    daemon.wait_for("active")
    client.insert_event(queue, "t", "1")
    eventually(lambda: list(listener.notifies(timeout=0, stop_after=1)))
    assert eventually(lambda: delivered(client)) == ["1"]


def test_retried_event_comes_back(start, dsn, client, queue):
    daemon = start(dsn, retry_period=0.1)
    daemon.wait_for("active")
    client.insert_event(queue, "t", "1")
    batch = eventually(lambda: client.next_batch(queue, "billing"))
    while not client.batch_retry(batch, 0):
        client.finish_batch(batch)
        batch = eventually(lambda: client.next_batch(queue, "billing"))
    client.finish_batch(batch)
    assert eventually(lambda: delivered(client)) == ["1"]
    counted = re.compile(r"^pgq_retried_events_total\{.*\} 1\.0$", re.MULTILINE)
    eventually(lambda: counted.search(daemon.metrics()))


def test_rotation_is_done_and_logged(start, dsn, client, queue):
    client.set_queue_config(queue, "rotation_period", "0.001 s")
    daemon = start(dsn, maint_period=0.1)

    def rotated():
        client.insert_event(queue, "t", "1")
        delivered(client)
        return daemon.said("rotated", queue=queue)

    eventually(rotated)


def test_metrics_of_the_process_the_daemon_and_the_queues_are_served(start, dsn, client, queue):
    daemon = start(dsn, gauge_period=0.1)
    daemon.wait_for("active")
    client.insert_event(queue, "t", "1")
    eventually(lambda: 'pgq_pending_events{consumer="billing"' in daemon.metrics())
    shown = daemon.metrics()
    assert "process_cpu_seconds_total" in shown
    assert 'pgq_ticks_total{database="' in shown
    assert 'queue="orders"' in shown


def test_health_shows_role_and_age(start, dsn):
    daemon = start(dsn)
    daemon.wait_for("active")
    status, body = daemon.healthz()
    ((_, database),) = body["databases"].items()
    assert (status, body["status"], database["role"]) == (200, "ok", "active")
    assert database["last_poll_age_seconds"] >= 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_stops_it_cleanly(start_process, dsn, connection, number):
    daemon = start_process(dsn)
    daemon.wait_for("active")
    daemon.process.signal(number)
    assert daemon.process.wait() == 0
    assert daemon.log()[-1]["event"] == "stopped"
    eventually(lambda: connection.execute(SESSIONS).fetchone() == (0,))


def test_stops_while_the_server_is_down(start_process):
    daemon = start_process("host=/nonexistent")
    daemon.wait_for("reconnecting")
    assert daemon.stop() == 0


def test_stops_while_the_server_hangs(start_process):
    """A server that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        daemon = start_process(f"host=127.0.0.1 port={port} connect_timeout=30")
        with silent.accept()[0]:
            assert daemon.stop() == 0


def test_stops_while_a_backend_hangs(start_process, own_server):
    import psutil

    with pgqpy.connect(own_server.dsn()) as client:
        install.install(client.connection)
        daemon = start_process(own_server.dsn())
        daemon.wait_for("active")
        query = "select pid from pg_stat_activity where application_name = 'pgqpy ticker'"
        pids = [pid for (pid,) in client.connection.execute(query).fetchall()]
        assert pids
        backends = [psutil.Process(pid) for pid in pids]
        for backend in backends:
            backend.suspend()
        try:
            assert daemon.stop() == 0
        finally:
            for backend in backends:
                backend.resume()


ABSURD = [
    ("PGQPY_POLL_INTERVAL", "-1", "must be a number of seconds above 0, and at most 900"),
    ("PGQPY_MAINT_PERIOD", "1000", "must be a number of seconds above 0, and at most 900"),
    ("PGQPY_DUE_PERIOD", "soon", "must be a number of seconds above 0, and at most 900"),
    ("PGQPY_HTTP_PORT", "70000", "must be a whole number from 0 to 65535"),
    ("PGQPY_LOG_LEVEL", "loud", "must be debug, info, warning or error"),
    ("PGQPY_DSNS", "password=hunter2", "must be a JSON list of connection strings"),
    ("PGQPY_DSNS", '"password=hunter2"', "must be a JSON list of connection strings"),
    ("PGQPY_DSNS", '["dbname=a", 1]', "must be a JSON list of connection strings"),
]


@pytest.mark.parametrize(("variable", "value", "bounds"), ABSURD)
def test_absurd_setting_is_wrong_usage_and_names_the_bounds(variable, value, bounds):
    ended = CliRunner().invoke(app, ["ticker", "run"], env={variable: value})
    assert ended.exit_code == 2
    (line,) = ended.output.strip().splitlines()
    assert variable in line
    assert bounds in line
    assert "hunter2" not in line


def test_taken_port_is_an_error_of_one_line(spawn, dsn):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = spawn("-m", "pgqpy", "ticker", "run", "--dsn", dsn, "--http-port", port)
        assert process.wait() == 1
    (line,) = process.output().strip().splitlines()
    assert port in line


def test_other_system_errors_are_not_reported_as_a_taken_port(monkeypatch):
    def fail(_ticker):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Ticker, "run", fail)
    with pytest.raises(OSError, match="Too many open files"):
        run(TickerSettings())


def has(host):
    """Say whether this machine has the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.socket(family) as probe:
        probe.bind((host, 0))
        return True
    return False


@pytest.mark.parametrize("host", list(filter(has, ["127.0.0.1", "::1", "localhost"])))
def test_health_is_served_at_any_address(start, dsn, host):
    daemon = start(dsn, http_host=host)
    assert eventually(lambda: daemon.healthz()[0] == 200)


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("db", "db:80")]
)
def test_address_is_written_as_in_a_url(host, expected):
    assert address(host, 80) == expected


def test_password_is_never_printed(start_process, dsn):
    daemon = start_process(f"{dsn} password=hunter2", "host=/nonexistent password=hunter2")
    daemon.wait_for("active")
    daemon.wait_for("reconnecting")
    assert "hunter2" not in daemon.healthz()[1].__repr__() + daemon.metrics()
    assert daemon.stop() == 0
    assert "hunter2" not in daemon.process.output()


def test_console_log_is_plain_text(spawn, dsn):
    process = spawn("-m", "pgqpy", "ticker", "run", "--dsn", dsn)
    text = process.wait_for_output("active")
    assert "started" in text
    assert "{" not in text
    assert process.terminate() == 0


def test_service_manager_gets_ready_watchdog_and_stopping(start_process, dsn, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(30)
        daemon = start_process(dsn, env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"})
        ready = until(manager, b"READY=1")[-1]
        assert ready.startswith(b"READY=1\nSTATUS=")
        assert ready.endswith(b": active")
        until(manager, b"WATCHDOG=1")
        daemon.process.signal(signal.SIGTERM)
        until(manager, b"STOPPING=1")
    assert daemon.process.wait() == 0


def until(manager, wanted):
    """Return what the service manager hears up to what starts with `wanted`."""
    heard: list[bytes] = []
    while not heard or not heard[-1].startswith(wanted):
        heard.append(manager.recv(2000))
    return heard


def test_service_manager_gets_ready_after_a_database_has_answered(
    start_process, own_server, tmp_path
):
    with pgqpy.connect(own_server.dsn()) as client:
        install.install(client.connection)
    own_server.stop()
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(30)
        daemon = start_process(own_server.dsn(), env={"NOTIFY_SOCKET": path})
        daemon.wait_for("reconnecting")
        assert manager.recv(2000).startswith(b"STATUS=")
        own_server.start()
        before = until(manager, b"READY=1")[:-1]
        assert all(each.startswith(b"STATUS=") for each in before)
        daemon.wait_for("active")
