"""Parts of the daemon without a database: health, settings, labels, logs, timers."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
from pydantic import ValidationError

from pgqpy.client.opening import connect_parameters
from pgqpy.errors import ConnectionFailed
from pgqpy.ticker import daemon, logs, session
from pgqpy.ticker.logs import brief
from pgqpy.ticker.periodic import Duty, Every, Timers
from pgqpy.ticker.settings import TickerSettings, problems
from pgqpy.ticker.web import Health, overall


def test_database_is_healthy_while_polls_succeed():
    health = Health("db")
    health.change("active")
    health.polled(now=100.0)
    assert overall([health], 104.0, limit=5.0)[0] == 200
    status, body = overall([health], 106.0, limit=5.0)
    assert status == 503
    assert "no answer" in body["databases"]["db"]["reason"]


def test_standby_is_healthy_and_refused_is_not():
    standby, refused = Health("a"), Health("b")
    standby.change("standby")
    standby.polled(now=1.0)
    refused.polled(now=1.0)
    refused.change("refused", "schema pgq is not installed")
    assert overall([standby], 1.0, limit=5.0)[0] == 200
    status, body = overall([standby, refused], 1.0, limit=5.0)
    assert status == 503
    assert body["databases"]["a"]["healthy"]
    assert body["databases"]["b"]["reason"] == "schema pgq is not installed"


@pytest.mark.parametrize(
    "dsn",
    [
        "host=db.example port=6432 user=me password=hunter2 dbname=shop",
        "postgresql://me:hunter2@db.example:6432/shop",
    ],
)
def test_label_names_the_database_and_never_the_password(dsn):
    assert session.label(dsn) == "db.example:6432/shop"


def test_label_knows_the_environment_of_libpq(monkeypatch):
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGHOST", "there")
    monkeypatch.setenv("PGUSER", "me")
    assert session.label("") == "there:5432/me"


def test_label_escapes_an_environment_that_is_not_utf_8(monkeypatch):
    monkeypatch.setenv("PGHOST", "there")
    monkeypatch.setenv("PGPORT", "5432")
    monkeypatch.setitem(os.environ, "PGDATABASE", os.fsdecode(b"caf\xe9"))
    assert session.label("") == r"there:5432/caf\xe9"


@pytest.mark.parametrize("dsn", ["secret", "postgresql://me:se/cret@host/db", "port=x"])
def test_connection_string_that_cannot_be_parsed_is_refused_without_quoting_it(dsn):
    with pytest.raises(ConnectionFailed) as caught:
        session.label(dsn)
    assert "cret" not in str(caught.value)


def test_no_two_databases_have_the_same_label():
    dsns = ["host=h dbname=a user=x", "host=h dbname=a user=y", "host=h dbname=b user=x"]
    assert session.labels(dsns) == ["h:5432/a", "h:5432/a#2", "h:5432/b"]


def test_connection_string_goes_before_our_defaults():
    keywords = connect_parameters("dbname=x connect_timeout=3", {}, session.CONNECT_DEFAULTS)
    assert "connect_timeout" not in keywords
    assert keywords["tcp_user_timeout"] == session.CONNECT_DEFAULTS["tcp_user_timeout"]


def test_timeout_of_the_environment_goes_before_our_default(monkeypatch):
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert "connect_timeout" not in connect_parameters("dbname=x", {}, session.CONNECT_DEFAULTS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_interval": "nan"},
        {"log_format": "xml"},
        {"unknown": 1},
        {"idle_poll_interval": 10},
        {"health_limit": 0.05},
    ],
)
def test_absurd_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}|health_limit .* must be longer"):
        TickerSettings(**wrong)


@pytest.mark.parametrize("name", ["PGQPY_TICK_INTERVALL", "PGQPY_HTTPPORT", "pgqpy_helth_limit"])
def test_misspelt_variable_is_refused(monkeypatch, name):
    monkeypatch.setenv("PGQPY_PORT", "tcp://10.0.0.1:80")  # as Kubernetes sets it
    monkeypatch.setenv("PGQPY_DSN2", "somebody's own")
    TickerSettings()
    monkeypatch.setenv(name, "1")
    with pytest.raises(ValidationError) as refused:
        TickerSettings()
    (told,) = problems(refused.value)
    assert told.startswith(f"{name} is no setting: did you mean PGQPY_")


def test_settings_never_print_a_password():
    settings = TickerSettings(dsn="password=hunter2", dsns=("password=hunter2",))
    assert "hunter2" not in f"{settings} {settings!r}"


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_log_of_an_unexpected_error_shows_no_local_variables(log_format, capsys):
    def connect(dsn):
        raise KeyError(len(dsn))

    log = logs.make_logger(TickerSettings(log_format=log_format))
    with pytest.raises(KeyError) as caught:
        connect(f"password=hunter{1 + 1}")  # the lines of a traceback do not have the whole of it
    log.warning("session failed", exc_info=caught.value)
    said = capsys.readouterr().err
    assert "raise" in said or "frames" in said
    assert "hunter2" not in said


def test_databases_come_from_dsns_or_from_the_environment(monkeypatch):
    monkeypatch.setenv("PGQPY_DSN", "dbname=one")
    assert TickerSettings().databases == ("dbname=one",)
    assert TickerSettings(dsns=("dbname=a", "dbname=b", "dbname=a")).databases == (
        "dbname=a",
        "dbname=b",
    )


def test_watchdog_is_fed_twice_as_often_as_it_wants(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert daemon.watchdog_interval() == 15.0
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert daemon.watchdog_interval() is None
    monkeypatch.delenv("WATCHDOG_USEC")
    assert daemon.watchdog_interval() is None


def test_no_service_manager_is_no_error(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not daemon.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not daemon.notify("READY=1")


def test_duties_are_due_at_once_when_the_clock_was_set_back(monkeypatch):
    called = threading.Event()

    class Called(Duty):
        def __init__(self):
            self.name, self.period = "called", 3600.0

        def __call__(self):
            called.set()

    monkeypatch.setattr("pgqpy.ticker.periodic.CLOCK_CHECK", 0.01)
    timers = Timers([Called()])
    timers.start()
    try:
        assert called.wait(30)
        assert timers.join(time.monotonic() + 30)  # one that still runs is not started again
        called.clear()
        monkeypatch.setattr("pgqpy.ticker.periodic.wall_clock_offset", lambda: -3600.0)
        assert called.wait(30)
    finally:
        timers.stop()


def test_duties_that_were_missed_for_a_year_are_due_once():
    every, start = Every(30.0), datetime(2026, 1, 1, tzinfo=timezone.utc)
    second = timedelta(seconds=1)
    assert every.get_next_fire_time(start, start + second) == start + 30 * second
    a_year_later = start + timedelta(days=365)
    assert every.get_next_fire_time(start, a_year_later) == a_year_later + 30 * second


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_foreign_texts_stay_one_line_without_terminal_commands(log_format, capsys):
    log = logs.make_logger(TickerSettings(log_format=log_format))
    log.error("queue failing", error="a\nb\x1b[2J" + "c" * 1_000_000)
    (line,) = capsys.readouterr().err.splitlines()
    assert "\x1b[2J" not in line
    assert len(line) < 2000


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("closed file")], ids=repr)
def test_line_that_cannot_be_written_is_dropped_and_the_next_one_is_printed(error, monkeypatch):
    class Stderr(io.StringIO):
        broken = True

        def write(self, text):
            if self.broken:
                raise error
            return super().write(text)

    stderr = Stderr()
    monkeypatch.setattr("sys.stderr", stderr)
    log = logs.make_logger(TickerSettings())
    log.warning("connection lost")
    stderr.broken = False
    log.info("queue works again")
    assert "queue works again" in stderr.getvalue()
    assert "connection lost" not in stderr.getvalue()


def test_service_manager_that_does_not_read_does_not_block(monkeypatch, tmp_path):
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    monkeypatch.setattr(daemon, "SEND_TIMEOUT", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        assert not all(daemon.notify("WATCHDOG=1") for _ in range(10_000))


def test_error_is_logged_as_one_line():
    assert brief(RuntimeError("first\nsecond")) == "first"
    assert brief(RuntimeError()) == "RuntimeError"
