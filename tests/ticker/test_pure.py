"""What decides without I/O: memory, back-off, intervals, health, connection strings."""

from __future__ import annotations

import os
import threading
import time

import pytest

from pgqpy.errors import ConnectionFailed
from pgqpy.settings import TickerSettings
from pgqpy.ticker import logs, notify, session
from pgqpy.ticker.backoff import Backoff
from pgqpy.ticker.duty import Duty
from pgqpy.ticker.health import Health, overall
from pgqpy.ticker.remedies import brief
from pgqpy.ticker.state import (
    BUSY_SLICES,
    HOT_FOR,
    HOT_QUEUES,
    ROUND,
    SLICES,
    UNKNOWN,
    Pace,
    TickState,
    look_interval,
)
from pgqpy.ticker.timers import Timers
from pgqpy.ticker.watch import FEW, Watch


def everything(watch):
    """Return what is known of few queues."""
    part = watch.everything()
    assert part is not None
    return part


def slices(watch):
    """Return the known queues, slice by slice, of one round."""
    watch.written()
    return [watch.next().part().queue_ids for _ in range(watch.stale)]


def test_watch_starts_with_nothing_known():
    part = everything(Watch())
    assert (part.queue_ids, part.seqs, part.writers) == (b"{}", b"{}", b"{}")
    assert part.covers(1)


def test_watch_remembers_the_last_tick_and_its_open_writers():
    watch = Watch()
    watch.ticked(1, b"5", b"3/4 -1/9")
    watch.ticked(1, b"7", None)
    watch.ticked(12, b"1", b"3/4 -1/9")
    part = everything(watch)
    assert part.queue_ids == b"{1,12}"
    assert part.seqs == b"{7,1}"
    assert part.writers == b'{NULL,"3/4 -1/9"}'


def test_watch_forgets_a_queue_that_is_gone():
    watch = Watch()
    watch.ticked(1, b"5", None)
    watch.forget(1)
    watch.forget(99)
    assert everything(watch).queue_ids == b"{}"


def test_chosen_queues_are_covered_and_no_others():
    watch = Watch()
    watch.ticked(2, b"5", None)
    part = watch.chosen([2, 7])
    assert (part.listed, part.queue_ids, part.seqs) == (b"{2,7}", b"{2}", b"{5}")
    assert [number for number in range(-9, 99) if part.covers(number)] == [2, 7]
    assert not any(watch.chosen([]).covers(number) for number in range(-9, 99))


def test_many_queues_are_no_longer_looked_at_together():
    watch = Watch()
    for number in range(FEW + 1):
        assert watch.everything() is not None
        watch.ticked(number, b"5", None)
    assert watch.everything() is None


def test_slices_cover_every_id_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch([3, 4, 8, 9, 10])
    ranges = [(int(first), int(last)) for first, last in watch.ranges()]
    assert ranges == [(-(2**31), 7), (8, 9), (10, 2**31 - 1)]


def test_round_goes_to_every_slice_once(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch([1, 2, 3, 4, 5])
    for number in range(1, 6):
        watch.ticked(number, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,4}", b"{5}"]
    assert watch.stale == 0


def test_slice_that_has_grown_is_divided(monkeypatch):
    monkeypatch.setattr("pgqpy.ticker.watch.SLICE", 2)
    watch = Watch()
    for number in (5, 3, 1, 2, 4):
        watch.ticked(number, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,4,5}"]
    watch.forget(4)
    watch.ticked(6, b"0", None)
    assert sorted(slices(watch)) == [b"{1,2}", b"{3,5,6}"]


def test_what_fails_is_left_alone_for_longer_and_longer():
    backoff = Backoff(first=0.1, longest=1.0)
    for times, pause in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0], start=1):
        assert backoff.failed("a", now=0.0) == times
        assert backoff.pausing("a", now=pause - 0.01)
        assert not backoff.pausing("a", now=pause)


def test_pause_does_not_overflow():
    backoff = Backoff(first=0.1, longest=1.0)
    for _ in range(5000):
        backoff.failed("a", now=0.0)
    assert not backoff.pausing("a", now=1.0)


def test_what_fails_is_tried_again_after_its_pause():
    backoff = Backoff(first=0.1, longest=1.0)
    backoff.failed("a", now=10.0)
    assert backoff.pausing("a", now=10.05)
    assert not backoff.due(now=10.05)
    assert not backoff.pausing("a", now=10.1)
    assert backoff.due(now=10.1)
    assert not backoff.pausing("b", now=10.0)


def test_success_ends_a_row_of_failures():
    backoff = Backoff(first=0.1, longest=1.0)
    backoff.failed("a", now=0.0)
    backoff.failed("a", now=0.0)
    assert backoff.names() == ["a"]
    assert backoff.succeeded("a") == 2
    assert backoff.succeeded("a") == 0
    assert not backoff


def test_what_is_gone_does_not_fail_any_more():
    backoff = Backoff()
    backoff.failed("a", now=0.0)
    backoff.failed("b", now=0.0)
    backoff.keep(["b", "c"])
    assert backoff.names() == ["b"]


def test_known_snapshot_is_ignored_when_something_that_failed_is_due():
    state = TickState(snapshot=b"5:5:")
    assert state.known_snapshot(now=0.0) == b"5:5:"
    state.failing.failed("a", now=0.0)
    assert state.known_snapshot(now=0.0) == b"5:5:"
    assert state.known_snapshot(now=60.0) == UNKNOWN


PACE = Pace(tick=0.004, busy=0.002, idle=0.05)


@pytest.mark.parametrize(
    ("quiet", "took", "expected"),
    [
        (0.0, 0.0005, 0.004),  # this look ticked
        (0.1, 0.0005, 0.002),  # events come in
        (2.0, 0.0005, 0.02),  # a hundredth of the silence
        (3600.0, 0.0005, 0.05),  # and no more than this
        (0.1, 0.01, 0.02),  # a slow server is left alone for half of the time
        (3600.0, 1.0, 2.0),
    ],
)
def test_looks_get_rarer_with_silence_and_with_cost(quiet, took, expected):
    assert look_interval(quiet, took, pace=PACE) == pytest.approx(expected)


def test_what_is_left_to_look_at_does_not_wait_for_the_silence_to_end():
    assert look_interval(3600.0, 0.0005, pace=PACE, more=True) == PACE.busy
    assert look_interval(0.0, 0.0005, pace=PACE, more=True) == PACE.tick
    assert look_interval(3600.0, 0.01, pace=PACE, more=True) == 0.02


def stale(slices):
    state = TickState(Watch(range(256 * slices)))
    state.watch.written()
    return state


def test_all_slices_are_looked_at_once_in_a_round():
    state = stale(4)
    assert len(list(state.next_slices(now=100.0))) == 4
    assert list(state.next_slices(now=200.0)) == []


def test_next_round_begins_a_period_after_the_last():
    state = stale(4)
    assert len(list(state.next_slices(now=100.0))) == 4
    state.watch.written()
    assert list(state.next_slices(now=100.0)) == []
    assert len(list(state.next_slices(now=100.0 + ROUND / 2))) == 2
    assert len(list(state.next_slices(now=100.0 + ROUND))) == 2


def test_no_look_goes_to_more_than_a_few_slices():
    state = stale(40)
    assert len(list(state.next_slices(now=100.0))) == SLICES


def test_a_look_that_events_wait_for_goes_to_fewer_slices():
    state = stale(4)
    state.ticked(1, now=100.0)
    assert len(list(state.next_slices(now=100.0))) == BUSY_SLICES < SLICES
    assert len(list(state.next_slices(now=100.0))) == 4 - BUSY_SLICES


def test_slice_remembers_whom_it_waits_for():
    watch = Watch()
    watch.ticked(1, b"5", b"3/4")
    watch.ticked(2, b"5", None)
    assert watch.next().waiting == {1}
    watch.ticked(1, b"5", None)
    watch.forget(2)
    assert watch.next().waiting == set()


def test_queues_are_hot_for_a_while_after_their_last_tick():
    state = TickState()
    state.ticked(1, now=10.0)
    state.ticked(2, now=11.0)
    state.ticked(1, now=11.5)
    assert state.hot_ids(now=11.5) == [2, 1]
    assert state.hot_ids(now=11.0 + HOT_FOR) == [1]
    assert state.hot_ids(now=99.0) == []


def test_only_so_many_queues_are_hot_and_the_latest_are():
    state = TickState()
    for number in range(HOT_QUEUES + 5):
        state.ticked(number, now=1.0)
    assert state.hot_ids(now=1.0) == list(range(5, HOT_QUEUES + 5))


def test_what_failed_is_looked_at_again_after_its_pause():
    state = TickState()
    assert state.failed("a", 7, now=0.0) == 1
    assert state.hot_ids(now=0.0) == []
    assert state.hot_ids(now=60.0) == [7]
    assert state.succeeded("a") == 1
    assert state.hot_ids(now=60.0) == []


def test_idle_interval_is_never_shorter_than_the_busy_one():
    assert look_interval(100.0, 0.0, pace=Pace(tick=0.1, busy=0.2, idle=0.05)) == 0.2


def test_database_is_healthy_while_looks_succeed():
    health = Health("db")
    health.change("active")
    health.looked(now=100.0)
    assert overall([health], 104.0, limit=5.0)[0] == 200
    status, body = overall([health], 106.0, limit=5.0)
    assert status == 503
    assert "no answer" in body["databases"]["db"]["reason"]


def test_standby_is_healthy_and_refused_is_not():
    standby, refused = Health("a"), Health("b")
    standby.change("standby")
    standby.looked(now=1.0)
    refused.looked(now=1.0)
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


@pytest.mark.parametrize("dsn", ["nonsense", "postgresql://me:se/cret@host/db", "port=x"])
def test_connection_string_that_cannot_be_meant_is_refused_without_quoting_it(dsn):
    with pytest.raises(ConnectionFailed) as caught:
        session.check_dsn(dsn)
    assert "cret" not in str(caught.value)


def test_no_two_databases_have_the_same_label():
    dsns = ["host=h dbname=a user=x", "host=h dbname=a user=y", "host=h dbname=b user=x"]
    assert session.labels(dsns) == ["h:5432/a", "h:5432/a#2", "h:5432/b"]


def test_connection_string_goes_before_our_defaults():
    assert "connect_timeout=3" in session.conninfo("dbname=x connect_timeout=3")
    assert "tcp_user_timeout=" in session.conninfo("dbname=x connect_timeout=3")


def test_timeout_of_the_environment_goes_before_our_default(monkeypatch):
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "7")
    assert "connect_timeout=7" in session.conninfo("dbname=x")
    assert "connect_timeout=3" in session.conninfo("dbname=x connect_timeout=3")


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_interval": 0},
        {"poll_interval": -1},
        {"poll_interval": "nan"},
        {"maint_period": 1e9},
        {"http_port": 70000},
        {"log_format": "xml"},
        {"unknown": 1},
    ],
)
def test_absurd_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TickerSettings(**wrong)


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


def test_databases_are_those_named_or_the_one_of_the_environment(monkeypatch):
    monkeypatch.setenv("PGQPY_DSN", "dbname=one")
    assert TickerSettings().databases == ("dbname=one",)
    assert TickerSettings(dsns=("dbname=a", "dbname=b", "dbname=a")).databases == (
        "dbname=a",
        "dbname=b",
    )


def test_watchdog_is_fed_twice_as_often_as_it_wants(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert notify.watchdog_interval() == 15.0
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert notify.watchdog_interval() is None
    monkeypatch.delenv("WATCHDOG_USEC")
    assert notify.watchdog_interval() is None


def test_no_service_manager_is_no_error(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify.notify("READY=1")


def test_duties_are_due_at_once_when_the_clock_was_set_back(monkeypatch):
    called = threading.Event()

    class Called(Duty):
        def __init__(self):
            self.name, self.period = "called", 3600.0

        def __call__(self):
            called.set()

    timers = Timers([Called()])
    timers.start()
    try:
        assert called.wait(30)
        assert timers.join(time.monotonic() + 30)  # one that still runs is not started again
        called.clear()
        monkeypatch.setattr("pgqpy.ticker.timers.wall_clock_offset", lambda: -3600.0)
        timers._scheduler.wakeup()
        assert called.wait(30)
    finally:
        timers.stop()


def test_error_is_told_in_one_line():
    assert brief(RuntimeError("first\nsecond")) == "first"
    assert brief(RuntimeError()) == "RuntimeError"
