"""Ranges of ticks: the same events as the batches between them, kept for who still needs them."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from psycopg.pq import TransactionStatus

from tests.guarantees.sessions import RC, RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
EVENTS = "select ev_id, ev_txid, ev_data from pgq.get_tick_events('q', %s, %s)"
PIN = "select pgq.pin_range('q', 'c', %s, %s)"
ADVANCE = "select pgq.advance_subscription('q', 'c', %s, %s)"
COUNT = "select count(*) from pgq.get_tick_events('q', 1, 2)"


class Range(NamedTuple):
    """Two ticks, and the events that a batch between them had."""

    first: int
    last: int
    events: list[tuple[int, int, str]]


def _ticks(session: Session) -> list[int]:
    return [row[0] for row in session.all("select tick_id from pgq.get_tick_info('q')")]


def _data(session: Session, first: int, last: int) -> list[str]:
    return [row[2] for row in session.all(EVENTS, first, last)]


def _fill(session: Session, *data: str) -> None:
    """Insert events, each followed by a tick."""
    for each in data:
        session.insert(each)
        session.tick()


def _expire(db: Database) -> int:
    """Rotate until the queue's first table is emptied; return the first tick that is left."""
    for number in range(3):
        _fill(db.main, f"later {number}")
        db.main.drain()
        db.main.rotate()
    low: int = db.main.one("select queue_low_tick from pgq.queue")
    assert low > 1
    return low


# The set of a range.


def _walk(session: Session, consumer: str = "c") -> list[Range]:
    """Take all batches; compare each with the range of its ticks."""
    ranges = []
    while (batch := session.next(consumer)) is not None:
        first, last = session.all(
            "select prev_tick_id, tick_id from pgq.get_batch_info(%s)", batch
        )[0]
        events = session.all(
            "select ev_id, ev_txid, ev_data from pgq.get_batch_events(%s) where ev_retry is null",
            batch,
        )
        assert session.all(EVENTS, first, last) == events
        ranges.append(Range(first, last, events))
        assert session.finish(batch) == 1
    return ranges


def _step(db: Database, workers: list[Session], name: int, random: Random) -> None:
    """Let one of the workers go on, or the queue tick or rotate."""
    chance = random.randrange(12)
    if chance == 0:
        db.main.tick()
    elif chance == 1:
        db.main.rotate()
    elif chance == 2:
        _end_prepared(db, random)
    else:
        _work(random.choice(workers), name, random)


def _work(worker: Session, name: int, random: Random) -> None:
    if not _busy(worker):
        worker.begin(random.choice((RC, RR)))
    kind = random.choice(("commit", "rollback", "prepare", "savepoint", "more", "more", "more"))
    worker.insert(f"{kind} {name}")
    if kind == "prepare":
        worker.run(f"prepare transaction 'p{name}'")
    elif kind == "savepoint":
        worker.run("savepoint s")
        worker.insert(f"inside {name}")
        worker.run(random.choice(("rollback to s", "release s")))
    elif kind != "more":
        worker.run(kind)


def _busy(worker: Session) -> bool:
    return worker.connection.info.transaction_status != TransactionStatus.IDLE


def _end_prepared(db: Database, random: Random) -> None:
    for (gid,) in db.main.all("select gid from pg_prepared_xacts limit 1"):
        db.main.run(f"{random.choice(('commit', 'rollback'))} prepared '{gid}'")


@pytest.mark.parametrize("seed", range(6))
def test_ranges_are_the_batches_whatever_overlaps_them(db: Database, seed: int) -> None:
    random = Random(seed)
    db.queue(consumers=("c", "keeper"), ntables="4")
    workers = [db.open() for _ in range(4)]
    ranges: list[Range] = []
    for name in range(250):
        _step(db, workers, name, random)
        if name % 25 == 0:
            ranges += _walk(db.main)
    for worker in workers:
        if _busy(worker):
            worker.commit()
    while db.main.one("select count(*) from pg_prepared_xacts"):
        _end_prepared(db, random)
    db.main.tick()
    ranges += _walk(db.main)

    for each in ranges:
        assert db.main.all(EVENTS, each.first, each.last) == each.events, "the same at any time"
    assert [(each.first, each.last) for each in ranges] == list(pairwise(_ticks(db.main)))
    everything = sorted(event for each in ranges for event in each.events)
    assert everything == db.main.all("select ev_id, ev_txid, ev_data from pgq.event_1 order by 1")
    assert len(everything) > 50
    first, middle, last = ranges[0].first, ranges[len(ranges) // 2].first, ranges[-1].last
    halves = db.main.all(EVENTS, first, middle) + db.main.all(EVENTS, middle, last)
    assert sorted(halves) == everything == db.main.all(EVENTS, first, last)


def test_retried_events_belong_to_no_range(db: Database) -> None:
    db.queue()
    _fill(db.main, "a")
    batch = db.main.next()
    assert db.main.one("select pgq.event_retry(%s, 1, 0)", batch) == 1
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    _fill(db.main, "b")
    assert _data(db.main, 1, 3) == ["a", "b"]
    assert _data(db.main, 2, 3) == ["b"]
    assert db.main.drain() == ["a", "b"], "the consumer has it again"


# What is kept.


def test_pinned_ticks_are_not_thinned_out(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abcdef")
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one("select pgq.compact_ticks()") is True
    assert _ticks(db.main) == [1, 3, 5, 7]
    assert _data(db.main, 1, 3) == ["a", "b"]
    assert _data(db.main, 3, 5) == ["c", "d"]


def test_pins_outlive_the_compaction_of_positions(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abcdef")
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one("select pgq.compact_positions()") is True
    assert db.main.one("select pgq.maint_positions()") == 0
    db.main.one("select pgq.compact_ticks()")
    assert _ticks(db.main) == [1, 3, 5, 7]


def test_pins_ahead_outlive_an_advance(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abcdef")
    assert db.main.one(PIN, 3, 5) == 1
    assert db.main.one(ADVANCE, 1, 3) == 1
    db.main.one("select pgq.compact_ticks()")
    assert _ticks(db.main) == [1, 3, 5, 7]
    assert db.main.one(ADVANCE, 3, 5) == 1


def test_pins_outlive_a_repair(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abcdef")
    assert db.main.one(PIN, 3, 5) == 1
    db.main.one("select pgq.repair_queue('q')")
    assert _ticks(db.main) == [1, 3, 5, 7]
    assert [_data(db.main, *pair) for pair in ((1, 3), (3, 5), (5, 7))] == [
        ["a", "b"],
        ["c", "d"],
        ["e", "f"],
    ]


@pytest.mark.parametrize("call", [PIN, ADVANCE])
def test_compaction_is_put_off_while_somebody_takes_a_tick(db: Database, call: str) -> None:
    db.queue()
    _fill(db.main, *"abc")
    reader = db.open()
    reader.begin()
    assert reader.one(call, 1, 3) == 1
    assert db.main.one("select pgq.compact_ticks()") is False
    reader.commit()
    assert db.main.one("select pgq.compact_ticks()") is True
    assert 3 in _ticks(db.main)


def test_rotation_takes_nothing_that_the_subscription_has_not_passed(db: Database) -> None:
    db.queue()
    _fill(db.main, "a")
    assert db.main.rotate() == 1
    _fill(db.main, "b")
    assert db.main.rotate() == 2
    _fill(db.main, "c")
    db.main.one(PIN, 1, 4)
    assert db.main.rotate() == 2, "the first table is next"
    assert _data(db.main, 1, 4) == ["a", "b", "c"]
    assert db.main.one(ADVANCE, 1, 3) == 1
    assert db.main.rotate() == 0
    assert _ticks(db.main)[0] <= 3
    assert _data(db.main, 3, 4) == ["c"]
    with refused("PQ016"):
        _data(db.main, 1, 4)


# Who moves it.


def test_of_two_that_advance_at_once_one_wins(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one(ADVANCE, 1, 3) == 1
    late = other.later(ADVANCE, 1, 4)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)
    assert db.main.one("select sub_last_tick from pgq.subscription") == 3
    assert other.one(ADVANCE, 1, 3) == 0, "said again"


def test_advance_that_waited_for_one_that_rolled_back_wins(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one(ADVANCE, 1, 3) == 1
    late = other.later(ADVANCE, 1, 4)
    wait_until_blocked(db.main.connection, other.pid)
    one.rollback()
    assert late.result(timeout=30) == 1


def test_pin_that_waited_for_an_advance_is_refused(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one(ADVANCE, 1, 3) == 1
    late = other.later(PIN, 1, 4)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)


def test_advance_that_waited_for_the_consumer_to_leave_is_refused(db: Database) -> None:
    db.queue()
    _fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one("select pgq.unregister_consumer('q', 'c')") == 1
    late = other.later(ADVANCE, 1, 3)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ002"):
        late.result(timeout=30)


@OLD_SNAPSHOTS
@pytest.mark.parametrize("call", [ADVANCE, PIN])
def test_old_snapshot_moves_nothing(db: Database, isolation: str, call: str) -> None:
    db.queue()
    _fill(db.main, *"abc")
    late = db.open()
    late.begin(isolation)
    assert db.main.one(ADVANCE, 1, 3) == 1
    with refused("40001"):
        late.one(call, 1, 4)
    late.rollback()
    assert db.main.one("select sub_last_tick from pgq.subscription") == 3


@OLD_SNAPSHOTS
@pytest.mark.parametrize(("call", "last"), [(ADVANCE, 1), (PIN, 3)])
def test_old_snapshot_is_not_told_that_nothing_has_to_be_done(
    db: Database, isolation: str, call: str, last: int
) -> None:
    db.queue()
    _fill(db.main, *"abc")
    db.main.one(PIN, 1, 3)
    late = db.open()
    late.begin(isolation)
    assert db.main.one(ADVANCE, 1, 2) == 1
    with refused("40001"):
        late.one(call, 1, last)


@OLD_SNAPSHOTS
def test_fresh_snapshot_pins_and_advances(db: Database, isolation: str) -> None:
    db.queue()
    _fill(db.main, *"abc")
    reader = db.open()
    reader.begin(isolation)
    assert [reader.one(PIN, 1, 3), reader.one(PIN, 1, 3)] == [1, 0]
    assert [reader.one(ADVANCE, 1, 3), reader.one(ADVANCE, 1, 3)] == [1, 0]
    reader.commit()
    assert db.main.one("select sub_last_tick from pgq.subscription") == 3


# Readers beside a rotation.


@pytest.mark.parametrize("isolation", [RC, RR])
def test_rotation_waits_for_who_asked_for_a_range(db: Database, isolation: str) -> None:
    db.queue()
    _fill(db.main, "a")
    for number in range(2):
        assert db.main.rotate() == number + 1
        _fill(db.main, "b")
    db.main.drain()
    reader = db.open()
    reader.begin(isolation)
    query = reader.one("select pgq.tick_event_sql('q', 1, 2)")
    assert db.main.rotate() == 2, "put off"
    assert [row[5] for row in reader.all(query)] == ["a"]
    reader.commit()
    assert db.main.rotate() == 0
    with refused("PQ016"):
        reader.one(COUNT)


@pytest.mark.parametrize("call", [COUNT, "select pgq.tick_event_sql('q', 1, 2)"])
def test_reader_that_waited_for_a_rotation_is_told_what_is_left(db: Database, call: str) -> None:
    db.queue()
    _fill(db.main, "a")
    for _ in range(2):
        db.main.rotate()
        _fill(db.main, "b")
    db.main.drain()
    rotator, reader = db.open(), db.open()
    rotator.begin()
    rotator.one("select pgq.maint_rotate_tables_step1('q')")
    late = reader.later(call)
    wait_until_blocked(db.main.connection, reader.pid)
    rotator.commit()
    with refused("PQ016"):
        late.result(timeout=30)


def test_reader_that_waited_for_a_rotation_that_rolled_back_reads_all(db: Database) -> None:
    db.queue()
    _fill(db.main, "a")
    for _ in range(2):
        db.main.rotate()
        _fill(db.main, "b")
    db.main.drain()
    rotator, reader = db.open(), db.open()
    rotator.begin()
    rotator.one("select pgq.maint_rotate_tables_step1('q')")
    late = reader.later(COUNT)
    wait_until_blocked(db.main.connection, reader.pid)
    rotator.rollback()
    assert late.result(timeout=30) == 1


@OLD_SNAPSHOTS
def test_snapshot_from_before_a_rotation_is_refused(db: Database, isolation: str) -> None:
    db.queue()
    _fill(db.main, "a")
    reader = db.open()
    reader.begin(isolation)
    _expire(db)
    with refused("40001"):
        reader.one(COUNT)
    reader.rollback()
    reader.begin(isolation)
    with refused("PQ016"):
        reader.one(COUNT)


def test_reader_that_waited_for_the_queue_to_be_dropped_is_told_so(db: Database) -> None:
    db.queue()
    _fill(db.main, "a")
    dropper, reader = db.open(), db.open()
    dropper.begin()
    dropper.one("select pgq.drop_queue('q', true)")
    late = reader.later(COUNT)
    wait_until_blocked(db.main.connection, reader.pid)
    dropper.commit()
    with refused("42P01"):
        late.result(timeout=30)
    with refused("PQ001"):
        reader.one(COUNT)
