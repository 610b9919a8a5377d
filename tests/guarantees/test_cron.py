"""Cron entries: one event for each planned time, whoever fires it; entries of a dropped queue."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import RR, Database, refused
from tests.guarantees.test_g7_moved import MOVED
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
NOW = datetime.now(timezone.utc).replace(second=0, microsecond=0)  # some minutes ago
ADD = "select pgq.add_cron('e', 'q', 't', %s, %s, 'UTC', %s)"
STAGE = "select pgq.open_stage('q', 'w', 1)"
FIRE = "select pgq.fire_cron('e', %s, %s, %s, %s)"
TIMES = "select ev_time from pgq.event_1 order by ev_time"


def add(db: Database, *, due: datetime | None = NOW, missed: str = "one", data: str = "d") -> Any:
    """Add an entry that is planned for this time; return its version."""
    db.queue()
    db.main.one(ADD, data, "* * * * *", missed)
    db.main.connection.execute("update pgq.cron set cron_next = %s", [due])
    return version(db.main)


def version(session: Session) -> Any:
    return session.one("select version from pgq.get_cron_info('e')")


def fire(session: Session, entry: Any, due: datetime, *, following: datetime = NOW + DAY) -> Any:
    return session.one(FIRE, entry, due, due, following)


def times(db: Database) -> list[datetime]:
    return [time for (time,) in db.main.all(TIMES)]


def test_planned_time_is_fired_once_and_then_the_next(db: Database) -> None:
    entry = add(db)
    assert fire(db.main, entry, NOW) == 1
    assert fire(db.main, entry, NOW) is None
    assert fire(db.main, entry, NOW - MINUTE) is None
    assert db.main.all("select next_due, last_due from pgq.get_cron_info()") == [(NOW + DAY, NOW)]
    assert times(db) == [NOW]
    assert db.main.deliver() == ["d"]


@pytest.mark.parametrize("fires_first", [False, True])
def test_stage_takes_no_event_of_an_entry(db: Database, fires_first: bool) -> None:
    """It would be hidden with the stage, and lost with one that is dropped."""
    entry = add(db)
    db.main.begin()
    if fires_first:
        assert fire(db.main, entry, NOW) == 1
    else:
        db.main.one(STAGE)
    with refused("PQ009"):
        db.main.one(STAGE) if fires_first else fire(db.main, entry, NOW)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_second_daemon_waits_for_the_first_and_fires_if_that_fails(db: Database, end: str) -> None:
    entry = add(db)
    db.main.run("alter function pgq.fire_cron set lock_timeout = '60s'")
    again = (FIRE, entry, NOW, NOW, NOW + DAY)
    fired = db.behind(lambda first: fire(first, entry, NOW), *again, end=end)
    assert (fired is None) is (end == "commit")
    assert times(db) == [NOW]


def test_second_daemon_does_not_wait_for_long(db: Database) -> None:
    entry = add(db)
    first, second = db.open(), db.open()
    first.begin()
    fire(first, entry, NOW)
    second.run("set statement_timeout = '3s'")
    with refused("55P03"):
        fire(second, entry, NOW)


def test_old_snapshot_fires_nothing_twice(db: Database) -> None:
    entry = add(db)
    late = db.open()
    late.begin(RR)
    fire(db.main, entry, NOW)
    with refused("40001"):
        fire(late, entry, NOW)
    late.rollback()
    assert times(db) == [NOW]


def test_changed_entry_is_not_fired_by_what_a_daemon_read_before(db: Database) -> None:
    before = add(db)
    assert db.main.one(ADD, "other", "* * * * *", "one") == 0
    assert fire(db.main, before, NOW) is None
    assert fire(db.main, version(db.main), NOW) == 1
    assert db.main.deliver() == ["other"]


def test_entry_keeps_its_next_time_unless_its_schedule_changes(db: Database) -> None:
    before = add(db)
    assert db.main.one(ADD, "d", "* * * * *", "one") == 0
    assert version(db.main) == before
    db.main.one(ADD, "other", "* * * * *", "all")
    assert db.main.one("select next_due from pgq.get_cron_info()") == NOW
    db.main.one(ADD, "other", "1 * * * *", "all")
    ((planned, since),) = db.main.all("select next_due, planned_at from pgq.get_cron_info()")
    assert planned is None
    assert since >= NOW


def test_paused_entry_is_not_fired_nor_made_up_for(db: Database) -> None:
    entry = add(db)
    assert db.main.one("select pgq.pause_cron('e')") == 1
    assert db.main.one("select pgq.pause_cron('e')") == 0
    assert fire(db.main, entry, NOW) is None
    assert db.main.one("select pgq.resume_cron('e')") == 1
    assert db.main.one("select pgq.resume_cron('e')") == 0
    assert fire(db.main, entry, NOW) is None
    ((planned, since),) = db.main.all("select next_due, planned_at from pgq.get_cron_info()")
    assert planned is None
    assert since >= NOW
    assert times(db) == []


def test_entry_is_planned_once_and_only_ahead(db: Database) -> None:
    entry = add(db, due=None)
    plan = "select pgq.fire_cron('e', %s, null, null, %s)"
    db.main.one(plan, entry, NOW - 5 * MINUTE)  # before the entry was there
    assert db.main.one("select next_due from pgq.get_cron_info()") is None
    db.main.one(plan, entry, NOW + DAY)
    db.main.one(plan, entry, NOW + 2 * DAY)
    assert db.main.one("select next_due from pgq.get_cron_info()") == NOW + DAY
    assert times(db) == []


def test_wrong_daemon_adds_no_event_that_was_not_planned(db: Database) -> None:
    entry = add(db)
    second = timedelta(seconds=1)
    for due, time, following in (
        (NOW + DAY, NOW + DAY, NOW + 2 * DAY),
        (NOW, NOW - MINUTE, NOW + MINUTE),
        (NOW, NOW, NOW),
        (NOW, NOW, NOW + MINUTE + second),
        (NOW - second, NOW - second, NOW + MINUTE),
        (None, NOW, NOW + MINUTE),
        (NOW, NOW, None),
        (NOW, NOW, NOW + 37_000 * DAY),
    ):
        with refused("PQ009"):
            db.main.one(FIRE, entry, due, time, following)
    db.main.run(f"update pgq.cron set cron_next = '{NOW - 60 * MINUTE}'")
    past = NOW - 60 * MINUTE
    assert fire(db.main, entry, past, following=past + MINUTE) is None, "it would have 60 more"
    assert times(db) == []
    db.main.run("update pgq.cron set cron_missed = 'all'")
    assert fire(db.main, entry, past, following=past + MINUTE) == 1


def test_clock_that_ran_ahead_silences_no_entry(db: Database) -> None:
    entry = add(db, due=NOW + 1000 * DAY)
    db.main.run("update pgq.cron set cron_planned = now() + interval '999 days'")
    ((planned, since, now),) = db.main.all(
        "select next_due, planned_at, read_at from pgq.get_cron_info()"
    )
    assert (planned, since) == (None, now)
    db.main.one("select pgq.fire_cron('e', %s, null, null, %s)", entry, NOW + DAY)
    assert db.main.one("select next_due from pgq.get_cron_info()") == NOW + DAY


def test_copied_cluster_fires_nothing_before_its_first_tick(db: Database) -> None:
    entry = add(db)
    db.main.tick()
    db.main.run(MOVED)
    assert fire(db.main, entry, NOW) is None
    db.main.tick()
    assert fire(db.main, entry, NOW) == 1


def test_disabled_queue_gets_nothing_and_the_time_stays_planned(db: Database) -> None:
    entry = add(db)
    db.main.one("select pgq.set_queue_config('q', 'disable_insert', 'true')")
    with refused("PQ006"):
        fire(db.main, entry, NOW)
    with refused("PQ006"):
        db.main.one("select pgq.run_cron('e')")
    db.main.one("select pgq.set_queue_config('q', 'disable_insert', 'false')")
    assert fire(db.main, entry, NOW) == 1


def test_entry_that_is_run_by_hand_keeps_its_schedule(db: Database) -> None:
    add(db)
    db.main.one("select pgq.pause_cron('e')")
    assert db.main.one("select pgq.run_cron('e')") == 1
    assert db.main.one("select next_due from pgq.get_cron_info()") == NOW
    assert db.main.one("select abs(extract(epoch from now() - ev_time)) < 60 from pgq.event_1")


def test_removed_entry_is_gone_and_others_are_named(db: Database) -> None:
    entry = add(db)
    assert db.main.one("select pgq.remove_cron('e')") == 1
    assert fire(db.main, entry, NOW) is None
    for function in ("remove", "pause", "resume", "run"):
        with refused("PQ023"):
            db.main.one(f"select pgq.{function}_cron('e')")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("i_name", ""),
        ("i_schedule", "0 7 * *"),
        ("i_schedule", None),
        ("i_timezone", "Berlin3"),
        ("i_missed", "two"),
    ],
)
def test_what_is_no_entry_is_refused(db: Database, column: str, value: str | None) -> None:
    db.queue()
    good = {"i_name": "e", "i_schedule": "@daily", "i_timezone": "UTC", "i_missed": "one"}
    values = {**good, column: value}
    with refused("PQ009"):
        db.main.connection.execute(
            "select pgq.add_cron(i_queue_name => 'q', i_type => 't', i_data => 'd',"
            " i_name => %(i_name)s, i_schedule => %(i_schedule)s,"
            " i_timezone => %(i_timezone)s, i_missed => %(i_missed)s)",
            values,
        )


def test_ticker_sees_no_payload(db: Database) -> None:
    entry = add(db, data="secret")
    session = db.open()
    session.run("set role pgq_ticker")
    assert "secret" not in str(session.all("select * from pgq.get_cron_info()"))
    for statement in ("select * from pgq.cron", "select pgq.run_cron('e')"):
        with refused("42501"):
            session.one(statement)
    assert fire(session, entry, NOW) == 1
    session.run("set role pgq_reader")
    with refused("42501"):
        fire(session, entry, NOW)


DROP = "select pgq.drop_queue('q', %s)"
ENTRIES = "select count(*) from pgq.cron"


def test_queue_with_entries_is_dropped_by_force_only(db: Database) -> None:
    add(db)
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    with refused("PQ008"):
        db.main.one(DROP, False)
    assert db.main.one(DROP, True) == 1
    assert db.main.one(ENTRIES) == 0


def test_entry_that_is_added_meanwhile_is_not_dropped(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    with refused("PQ008"):
        db.behind(lambda adding: adding.one(ADD, "d", "* * * * *", "one"), DROP, False)
    assert db.main.one(ENTRIES) == 1


def test_drop_waits_for_a_change_and_a_fire_without_stopping_producers(db: Database) -> None:
    entry = add(db)
    other, dropping = db.open(), db.open()
    other.begin()
    assert fire(other, entry, NOW) == 1
    assert other.one("select pgq.pause_cron('e')") == 1
    drop = dropping.later(DROP, True)
    wait_until_blocked(db.main.connection, dropping.pid)
    db.main.insert("meanwhile")
    other.commit()
    assert drop.result(30) == 1
    assert fire(db.main, entry, NOW) is None
    assert db.main.one(ENTRIES) == 0


def test_drop_waits_for_a_pause_before_it_holds_any_lock(db: Database) -> None:
    add(db)
    other, dropping = db.open(), db.open()
    other.begin()
    other.one("select pgq.pause_cron('e')")
    drop = dropping.later(DROP, True)
    wait_until_blocked(db.main.connection, dropping.pid)
    db.main.run("set lock_timeout = '10s'")
    db.main.insert("meanwhile")
    other.rollback()
    assert drop.result(30) == 1
