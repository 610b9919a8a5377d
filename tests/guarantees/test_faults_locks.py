"""The order in which locks are taken, so that nobody deadlocks with a queue that is dropped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RR, refused
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database
    from tests.support.processes import PythonProcess

HELD = """
    select count(*) from pg_locks
    where pid = %s and granted and relation = 'pgq.event_1_id_seq'::regclass
"""


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.insert_event('q', 't', 'd')",
        "select count(*) from pgq.insert_events('q', array['t'], array['d'])",
        "select pgq.insert_event_raw('q', 2, now(), null, 0, 't', 'd', '', '', '', '')",
        "select pgq.maint_retry_events()",
    ],
)
def test_insert_locks_the_table_before_the_sequence_as_a_drop_does(db: Database, call: str) -> None:
    db.queue()
    db.main.tick_after("a")
    db.main.one("select pgq.batch_retry(%s, 0)", db.main.next())
    locker, producer = db.open(), db.open()
    locker.begin()
    locker.run("lock table pgq.event_1_0 in share mode")
    inserted = producer.later(call)
    wait_until_blocked(db.main.connection, producer.pid)
    assert db.main.one(HELD, producer.pid) == 0
    locker.commit()
    assert inserted.result(timeout=30)


LOOKS = {
    "ticker_activity": "select queue_name from pgq.ticker_activity()",
    "ticker_due": "select pgq.ticker_due()",
    "ticker": "select queue_name from pgq.queue where pgq.ticker(queue_name) > 0",
}
DROP = "select pgq.drop_queue('q', true)"


@pytest.mark.alone
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_drop_that_is_left_open_holds_up_no_other_queue(db: Database, look: str) -> None:
    for name in ("q", "r"):
        db.queue(name, ticker_max_lag="0")
        db.main.insert("a", name)
    admin = db.open()
    admin.begin()
    admin.one(DROP)
    assert db.main.all(look) == [("r",)]
    admin.rollback()
    assert ("q",) in db.main.all(look)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@pytest.mark.parametrize(
    ("read", "whole"),
    [
        ("select queue_name from pgq.get_queue_info()", "select pgq.drop_queue('q')"),
        ("select pgq.force_tick('q')", "select pgq.repair_queue('q')"),
    ],
    ids=["drop", "repair"],
)
def test_drop_that_waits_for_a_sequence_holds_up_no_other_queue(
    db: Database, read: str, whole: str, look: str
) -> None:
    db.queue(consumers=())
    db.queue("r", ticker_max_lag="0")
    reader, admin = db.open(), db.open()
    reader.begin()
    reader.one(read)
    waiting = admin.later(whole)
    eventually(partial(_waits_for_a_sequence, db, admin.pid))
    db.main.insert("a", "r")
    db.main.run("set lock_timeout = '2s'")
    assert ("r",) in db.main.all(look)
    reader.rollback()
    assert waiting.result(timeout=30) is not None


@pytest.mark.alone
def test_list_of_queues_waits_for_none_that_is_locked(db: Database) -> None:
    for name in ("q", "r"):
        db.queue(name)
        db.main.insert("a", name)
    owner = db.open()
    owner.begin()
    owner.run("alter sequence pgq.event_1_id_seq cache 1")
    db.main.run("set lock_timeout = '2s'")
    listed = "select queue_name, ev_new from pgq.get_queue_info()"
    assert db.main.all(listed) == [("q", None), ("r", 1)]
    assert db.main.one("show lock_timeout") == "2s"
    owner.rollback()
    assert db.main.all(listed) == [("q", 1), ("r", 1)]


def _waits_for_a_sequence(db: Database, pid: int) -> bool:
    """Say whether the session waits for a sequence for as long as it takes."""
    waits = """
        select true from pg_locks join pg_class on pg_class.oid = relation
        where pid = %s and not granted and relkind = 'S'
            and pg_locks.waitstart < clock_timestamp() - interval '50 ms'
    """
    return bool(db.main.one(waits, pid))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_ticker_that_has_looked_ticks_before_a_drop(db: Database, look: str) -> None:
    db.queue(ticker_max_lag="0")
    db.main.insert("a")
    ticker, admin = db.open(), db.open()
    ticker.begin()
    ticker.all(look)
    dropped = admin.later(DROP)
    assert wait_until_blocked(db.main.connection, admin.pid) == [ticker.pid]
    assert ticker.tick() > 0  # at once: whoever drops waits for us, not we for him
    ticker.commit()
    assert dropped.result(timeout=30) == 1


def test_repair_waits_for_a_consumer_that_has_opened_a_batch(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    db.main.tick()
    assert db.behind(lambda consumer: consumer.next(), "select pgq.repair_queue('q')") == 1
    assert db.main.data(db.main.next()) == ["a"]


IN_PROGRESS = "select backend_xid is not null from pg_stat_activity where pid = %s"


@pytest.mark.parametrize(
    "call",
    [
        "select pgq.insert_event('q', 't', 'd')",
        "select pgq.insert_event('q', 't', 'd', '1', '2', '3', '4')",
        "select count(*) from pgq.insert_events('q', array['t'], array['d'])",
        "select pgq.insert_event_raw('q', null, now(), null, 0, 't', 'd', '', '', '', '')",
        "select ev_id from pgq.insert_event_once('q', 'key', '1 day', 't', 'd')",
    ],
)
def test_event_that_a_tick_counts_is_seen_or_known_to_be_in_progress(
    db: Database, call: str
) -> None:
    # A ticker that finds a new id ticks, and ticks again when what was in progress has ended.
    db.queue()
    locker, producer = db.open(), db.open()
    locker.begin()
    locker.run("alter sequence pgq.event_1_id_seq cache 1")  # nextval has to wait for it
    inserted = producer.later(call)
    wait_until_blocked(db.main.connection, producer.pid)
    in_progress = db.main.one(IN_PROGRESS, producer.pid)
    locker.commit()
    assert inserted.result(timeout=30)
    assert in_progress is True


def test_queue_that_grows_beside_one_that_is_made_waits_for_it(db: Database) -> None:
    db.queue()
    grown = db.behind(
        "select pgq.create_queue('r')", "select pgq.set_queue_config('q', 'ntables', '4')"
    )
    assert grown == 1
    db.main.one("select pgq.register_consumer('r', 'c')")
    for name in ("q", "r"):
        db.main.insert(f"into {name}", name)
        assert db.main.deliver(queue=name) == [f"into {name}"]


SETTING = "select pgq.set_queue_config('q', 'ticker_max_count', '7')"


def test_daemon_passes_over_a_queue_that_somebody_has(
    db: Database, spawn: Callable[..., PythonProcess]
) -> None:
    for name in ("q", "r"):
        db.queue(name)
    spawn("-m", "pgqpy", "ticker", "run", "--dsn", db.dsn)
    _expect_ticks(db, "q", "r")
    admin = db.open()
    admin.begin()
    admin.one(SETTING)
    for _ in range(3):
        db.main.insert("held up", "q")
        _expect_ticks(db, "r")
    admin.commit()
    eventually(lambda: db.main.drain(queue="q")[-1:] == ["held up"])


def _expect_ticks(db: Database, *queues: str) -> None:
    """Insert an event and wait until it is delivered."""
    for queue in queues:
        db.main.insert("on", queue)
    for queue in queues:
        eventually(partial(_delivered, db, queue))


def _delivered(db: Database, queue: str) -> bool:
    return "on" in db.main.drain(queue=queue)


def test_older_snapshot_finishes_no_batch_behind_a_repair(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    batch = db.main.next()
    old = db.open()
    old.begin(RR)
    assert db.main.one("select pgq.repair_queue('q')") == 1
    with refused("40001"):
        old.finish(batch)
    old.rollback()
    assert db.main.drain() == ["a"]
