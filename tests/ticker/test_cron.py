"""The duty that fires cron entries: missed times, failures, daemons that are killed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from pgqpy import InvalidArgument
from pgqpy.schedule import schedule
from pgqpy.ticker import duties
from pgqpy.ticker.duties import Cron, sqlstate
from pgqpy.ticker.metrics import CRON_LATE, read_gauges
from pgqpy.ticker.periodic import duties_of
from tests.support.gates import shut_gate
from tests.support.waiting import eventually
from tests.ticker.harness import database_of

MINUTE = timedelta(minutes=1)
TIMES = "select ev_time from pgq.event_{} order by ev_id"


def add(client, name, due, *, queue="orders", **options):
    """Add an entry that is planned for a time."""
    client.add_cron(name, queue, "build", name, **{"schedule": "* * * * *", **options})
    client.connection.execute(
        "update pgq.cron set cron_next = %s where cron_name = %s", (due, name)
    )


def minutes_ago(count):
    return datetime.now(timezone.utc).replace(second=0, microsecond=0) - count * MINUTE


def times(client, number=1):
    return [time for (time,) in client.connection.execute(TIMES.format(number)).fetchall()]


def test_new_entry_is_planned_and_fired_when_it_is_due(client, queue):
    client.add_cron("report", queue, "build", {"kind": "yearly"}, schedule="30 7 1 2 *")
    duty = Cron()
    assert duty.fire(client).events == []
    (entry,) = client.get_cron_info()
    assert f"{entry.next_due:%m-%d %H:%M}" == "02-01 07:30"
    assert timedelta(0) < entry.next_due - entry.read_at <= timedelta(days=366)
    due = minutes_ago(1)
    client.connection.execute("update pgq.cron set cron_next = %s", [due])
    assert [event for _, event in duty.fire(client).events] == [due]
    assert duty.fire(client).events == []
    assert client.get_cron_info()[0].next_due == entry.next_due
    client.tick_queue(queue)
    batch = client.next_batch(queue, "billing")
    (event,) = client.get_batch_events(batch)
    assert (event.type, event.json(), event.time) == ("build", {"kind": "yearly"}, due)


def test_missed_times_give_one_event_for_the_last_of_them(client, queue):
    add(client, "one", minutes_ago(5))
    Cron().fire(client)
    assert minutes_ago(1) <= times(client)[0] <= minutes_ago(0)
    assert len(times(client)) == 1


def test_all_missed_times_give_events_in_order(client, queue, monkeypatch):
    start = minutes_ago(5)
    add(client, "all", start, missed="all")
    Cron().fire(client)
    found = times(client)
    assert found == [start + n * MINUTE for n in range(len(found))]
    assert found[-1] >= minutes_ago(1)
    monkeypatch.setattr(duties, "MOST", 3)
    add(client, "all", start, missed="all")
    Cron().fire(client)
    assert len(times(client)) == len(found) + 3, "the last ones, up to a bound"
    assert times(client)[-1] >= minutes_ago(1)


def test_skipped_time_gives_no_event_unless_it_is_recent(client, queue):
    add(client, "late", minutes_ago(60 * 24), missed="skip", schedule="0 0 1 1 *")
    add(client, "recent", minutes_ago(60), missed="skip")
    assert [entry.name for entry, _ in Cron().fire(client).events] == ["recent"]
    assert len(times(client)) == 1
    assert {entry.next_due > entry.read_at for entry in client.get_cron_info()} == {True}


def test_planned_time_that_the_schedule_does_not_have_is_fired_all_the_same(client, queue):
    due = minutes_ago(3)
    add(client, "other zone data", due, schedule="0 0 1 1 *")
    Cron().fire(client)
    assert times(client) == [due]


def test_entry_that_fails_stops_no_other(client, queue):
    client.create_queue("disabled")
    client.set_queue_config("disabled", "disable_insert", True)
    due = minutes_ago(1)
    add(client, "a", due, queue="disabled")
    add(client, "b", due)
    client.connection.execute("update pgq.cron set cron_schedule = '99 * * * *'")
    add(client, "a", due, queue="disabled")
    add(client, "c", due)
    done = Cron().fire(client)
    assert [entry.name for entry, _ in done.events] == ["c"]
    (first, refused, _), (second, unreadable, _) = done.failures
    assert (first.name, sqlstate(refused)) == ("a", "PQ006")
    assert second.name == "b"
    assert isinstance(unreadable, InvalidArgument)


def test_schedule_that_no_day_fits_is_read_once(client, queue):
    client.create_queue("disabled")
    client.set_queue_config("disabled", "disable_insert", True)
    add(client, "looked at each time", minutes_ago(1), queue="disabled")
    add(client, "never", None)
    client.connection.execute(
        "update pgq.cron set cron_schedule = '0 0 31 2,4 *' where cron_name = 'never'"
    )
    duty, before = Cron(), schedule.cache_info().misses
    for _ in range(3):
        assert "never" in {entry.name for entry, _, _ in duty.fire(client).failures}
    assert schedule.cache_info().misses - before <= 2
    add(client, "never", minutes_ago(1))
    assert [entry.name for entry, _ in duty.fire(client).events] == ["never"]


def test_locked_queue_does_not_hold_up_the_entries_of_others(client, queue, connect):
    client.create_queue("other")
    for name in ("a", "b", "c"):
        add(client, name, minutes_ago(1))
    add(client, "d", minutes_ago(1), queue="other")
    locker = connect()
    locker.autocommit = False
    locker.execute("lock table pgq.event_1_0 in access exclusive mode")
    duty = Cron()
    done = duty.fire(client)
    locker.rollback()
    assert [entry.name for entry, _ in done.events] == ["d"]
    assert [(entry.name, sqlstate(error)) for entry, error, _ in done.failures] == [("a", "55P03")]
    eventually(lambda: [duty.fire(client), len(times(client)) == 3][1])


def test_lost_connection_is_raised(client, queue):
    add(client, "report", minutes_ago(1))
    client.connection.execute(
        "alter table pgq.event_1_0 add check (pg_terminate_backend(pg_backend_pid()))"
    )
    with pytest.raises(psycopg.OperationalError):
        Cron().fire(client)


def test_duty_looks_at_the_entries_only_when_something_may_be_due(client, queue, monkeypatch):
    duty = Cron()
    duty.fire(client)
    add(client, "report", minutes_ago(1))
    assert duty.fire(client).events == []
    monkeypatch.setattr(duties, "POLL_PERIOD", 0.0)
    assert Cron().fire(client).events != []


def test_daemon_without_cron_has_no_such_duty_and_shows_what_is_late(client, queue, dsn, sessions):
    add(client, "report", minutes_ago(2))
    add(client, "moved", datetime(9000, 1, 1, tzinfo=timezone.utc))
    client.connection.execute(
        "update pgq.cron set cron_planned = %s where cron_name = 'moved'", (minutes_ago(4),)
    )
    assert read_gauges(client)[CRON_LATE][queue, "report"] >= 120
    assert read_gauges(client)[CRON_LATE][queue, "moved"] >= 120
    client.connection.execute(
        "update pgq.cron set cron_planned = %s, cron_next = null where cron_name = 'moved'",
        (minutes_ago(4),),
    )
    assert read_gauges(client)[CRON_LATE][queue, "moved"] >= 120
    client.connection.execute("update pgq.cron set cron_schedule = '0 0 31 2 *'")
    assert read_gauges(client)[CRON_LATE][queue, "moved"] >= 120
    for wanted in (True, False):
        duties = duties_of(database_of(dsn, sessions, cron=wanted))
        assert ("cron" in {duty.name for duty in duties}) is wanted


def test_standby_fires_after_the_daemon_was_killed(client, queue, dsn, start_process, connection):
    due = minutes_ago(1)
    add(client, "report", due, schedule="0 0 1 1 *")
    with shut_gate(connection) as gate:
        connection.execute(
            "create function wait_at_gate() returns trigger language plpgsql as"
            f" $$ begin perform pg_advisory_xact_lock_shared({gate.key}); return new; end $$"
        )
        connection.execute(
            "create trigger gate before insert on pgq.event_1_0"
            " for each row execute function wait_at_gate()"
        )
        connection.execute("alter function pgq.fire_cron set lock_timeout = '60s'")
        first = start_process(dsn)
        pid = gate.wait_for_arrival()
        second = start_process(dsn)
        second.wait_for("standby")
        first.process.kill()
        connection.execute("select pg_terminate_backend(%s)", [pid])
        connection.execute("drop trigger gate on pgq.event_1_0")
    second.wait_for("active")
    eventually(lambda: times(client))
    assert times(client) == [due]
    eventually(lambda: re.search("pgq_cron_events_total.* 1.0", second.metrics()))
