"""Attempts at an open batch: who counts them, what moves keep, and who takes one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RR, refused
from tests.guarantees.test_parts import finish_part, open_batch

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

COUNT = "update pgq.position set pos_attempts = 3"
ATTEMPTS = "select pos_attempts from pgq.current_position where sub_queue = 1"
POSITION = "select pos_no from pgq.current_position where sub_queue = 1"
OPEN = "select batch_id, attempts, position from pgq.open_batch('q', 'c', i_held => %s)"
RELEASE = "select pgq.release_batch(%s)"


def attempt(session: Session, held: int | None = None) -> object:
    """Open the batch as a process; return which attempt that is."""
    return session.all(OPEN, held)[0][1]


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("select pgq.finish_part({batch}, {first})", 3),
        ("select pgq.finish_part({batch}, {first}, x_attempts => 1)", 1),
        ("select pgq.finish_batch({batch})", None),
        ("select pgq.finish_batch({batch}), pgq.next_batch('q', 'c')", None),
        ("select pgq.finish_batch({batch}), pgq.open_batch('q', 'c')", 1),
        ("select pgq.event_retry({batch}, {first}, 0)", 3),
        ("select pgq.next_batch('q', 'c')", 3),
        ("select pgq.next_batch_custom('q', 'c', null, 5, null)", 3),
        ("select pgq.open_batch('q', 'c')", 4),
        ("select pgq.open_batch('q', 'c', i_held => {batch})", 3),
        ("select pgq.release_batch({batch})", 2),
        ("select pgq.compact_positions()", 3),
        ("select pgq.repair_queue('q')", 3),
        ("select pgq.set_consumer_filter('q', 'c', '{{}}')", 3),
        ("select pgq.register_consumer_at('q', 'c', null)", 3),
        ("select pgq.seek_consumer('q', 'c', null, false, '-infinity')", None),
    ],
)
def test_moves_keep_the_attempts_of_the_open_batch(
    db: Database, call: str, left: int | None
) -> None:
    batch, (first, second) = open_batch(db, *"ab")
    db.main.tick()
    db.main.run(COUNT)
    db.main.all(call.format(batch=batch, first=first.id, second=second.id))
    assert db.main.one(ATTEMPTS) == left


def test_each_process_counts_once(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    ((batch, first, position),) = db.main.all(OPEN, None)
    assert first == 1
    assert position == db.main.one(POSITION)
    assert [attempt(db.open()) for _ in range(3)] == [2, 3, 4]
    assert attempt(db.open(), batch) == 4
    assert attempt(db.open(), batch - 1) == 5
    assert db.main.one(POSITION) == position


def test_a_batch_that_a_client_of_pgq_opened_counts_from_its_first_process_on(
    db: Database,
) -> None:
    batch, _ = open_batch(db, "a")
    assert db.main.one(ATTEMPTS) is None
    assert db.main.one(RELEASE, batch) == 0
    assert [attempt(db.main) for _ in range(2)] == [1, 2]
    assert db.main.next() == batch


def test_a_released_attempt_does_not_count(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    ((batch, _, _),) = db.main.all(OPEN, None)
    assert [db.main.one(RELEASE, batch) for _ in range(2)] == [1, 0]
    assert [attempt(db.main) for _ in range(2)] == [1, 2]
    assert db.main.finish(batch) == 1
    assert db.main.one(RELEASE, batch) == 0


def test_no_batch_no_attempt_and_a_poll_writes_nothing(db: Database) -> None:
    db.queue()
    assert db.main.all(OPEN, None) == [(None, None, None)]
    before = db.main.one("select pg_current_wal_insert_lsn()")
    assert db.main.all(OPEN, None) == [(None, None, None)]
    assert db.main.one("select pg_current_wal_insert_lsn()") == before


def test_the_first_call_makes_the_consumer_plain(db: Database) -> None:
    db.queue()
    attempt(db.main)
    assert db.main.one("select sub_mode from pgq.registration where sub_queue = 1") == "plain"


def test_a_process_that_opens_the_batch_while_it_is_finished_gets_none(db: Database) -> None:
    batch, _ = open_batch(db, "a")
    query = "select batch_id from pgq.open_batch('q', 'c')"
    assert db.behind(lambda old: old.finish(batch), query) is None


def test_a_part_that_is_finished_while_a_process_opens_the_batch_keeps_its_count(
    db: Database,
) -> None:
    batch, (first, _) = open_batch(db, *"ab")
    db.main.run(COUNT)
    query = "select attempts from pgq.open_batch('q', 'c')"
    assert db.behind(lambda old: finish_part(old, batch, first.id), query) == 4
    assert db.main.data(batch) == ["b"]


def test_unknown_consumers_and_old_snapshots_are_refused(db: Database) -> None:
    batch, _ = open_batch(db, *"ab")
    with refused("PQ002"):
        db.main.one("select pgq.open_batch('q', 'nobody')")
    late = db.open()
    late.begin(RR)
    with refused("PQ013"):
        attempt(late)
    late.rollback()
    late.begin(RR)
    late.one("select 1")
    attempt(db.main)
    with refused("40001"):
        finish_part(late, batch, 10**9)
