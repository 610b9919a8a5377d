"""Attempts: what a run learns from the token that the run before it left, and what moves keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RR, refused
from tests.guarantees.test_parts import finish_part, open_batch

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

HOLD = "update pgq.position set pos_holder = 'host:1:a', pos_part = 30, pos_tries = 2"
ATTEMPT = "select pos_holder, pos_part, pos_tries from pgq.current_position where sub_queue = 1"
HELD, PROGRESSED = ("host:1:a", 30, 2), ("host:1:a", 30, None)
NEW = (None, None, None)
POSITIONS = "select count(*) from pgq.position where pos_sub > 0"


def begin_run(db: Database, holder: str) -> tuple[object, ...]:
    """Begin a run: the size of its parts, its tries, and the token of the run that died."""
    query = "select part_size, tries, died from pgq.begin_run('q', 'c', %s)"
    return db.main.all(query, holder)[0]


def die(db: Database, times: int) -> tuple[object, ...]:
    """Begin one run after the other; none of them ends. Return what the last one learns."""
    return [begin_run(db, f"run {number}") for number in range(times + 1)][-1]


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("select pgq.finish_part({batch}, {first})", PROGRESSED),
        ("select pgq.finish_part({batch}, null, array[{second}])", HELD),
        ("select pgq.finish_batch({batch})", PROGRESSED),
        ("select pgq.finish_batch({batch}), pgq.next_batch('q', 'c')", PROGRESSED),
        ("select pgq.event_retry({batch}, {first}, 0)", HELD),
        ("select pgq.next_batch('q', 'c')", HELD),
        ("select pgq.compact_positions()", HELD),
        ("select pgq.repair_queue('q')", HELD),
        ("select pgq.register_consumer_at('q', 'c', null)", HELD),
        (
            "select pgq.register_consumer_at('q', 'c', min(tick_id)) from pgq.get_tick_info('q')",
            ("host:1:a", None, None),
        ),
        ("select pgq.finish_batch({batch}), pgq.advance_subscription('q', 'c', 2, 3)", NEW),
    ],
)
def test_moves_keep_the_holder_and_progress_clears_the_tries(
    db: Database, call: str, left: tuple[object, ...]
) -> None:
    batch, (first, second) = open_batch(db, *"ab")
    db.main.tick()
    db.main.run(HOLD)
    db.main.all(call.format(batch=batch, first=first.id, second=second.id))
    assert db.main.all(ATTEMPT) == [left]


def test_finish_part_without_progress_keeps_the_tries(db: Database) -> None:
    batch, (first, second) = open_batch(db, *"ab")
    assert finish_part(db.main, batch, first.id) == 1
    db.main.run(HOLD)
    assert finish_part(db.main, batch, first.id) == 1
    assert db.main.all(ATTEMPT) == [HELD]
    assert finish_part(db.main, batch, second.id) == 1
    assert db.main.all(ATTEMPT) == [PROGRESSED]


def test_crashes_narrow_the_parts_and_then_count_against_the_first_event(db: Database) -> None:
    batch, (first, *_) = open_batch(db, *"abc")
    learned = [begin_run(db, f"run {number}") for number in range(6)]
    assert learned == [
        NEW,
        (1000, None, "run 0"),
        (30, None, "run 1"),
        (1, None, "run 2"),
        (1, 1, "run 3"),
        (1, 2, "run 4"),
    ]
    assert finish_part(db.main, batch, first.id) == 1
    assert begin_run(db, "run 6") == (1, 1, "run 5")


def test_run_that_comes_back_has_not_died(db: Database) -> None:
    open_batch(db, "a")
    begin_run(db, "run")
    before = db.main.one(POSITIONS)
    assert db.main.next() is not None
    assert begin_run(db, "run") == NEW
    assert db.main.one(POSITIONS) == before


def test_run_that_ended_in_order_has_not_died(db: Database) -> None:
    open_batch(db, "a")
    assert die(db, 4) == (1, 1, "run 3")
    assert db.main.one("select pgq.end_run('q', 'c', 'run 3')") == 0
    assert db.main.one("select pgq.end_run('q', 'c', 'run 4')") == 1
    assert begin_run(db, "later") == (1, 1, None)
    assert begin_run(db, "even later") == (1, 2, "later")


def test_crash_without_an_open_batch_never_counts(db: Database) -> None:
    batch, _ = open_batch(db, "a")
    assert die(db, 4) == (1, 1, "run 3")
    assert db.main.finish(batch) == 1
    assert begin_run(db, "later") == (1, None, None)


def test_run_that_begins_while_the_batch_is_finished_waits_for_that(db: Database) -> None:
    batch, _ = open_batch(db, "a")
    begin_run(db, "old")
    died = db.behind(
        lambda old: old.finish(batch), "select died from pgq.begin_run('q', 'c', 'new')"
    )
    assert died is None


def test_parts_widen_step_by_step_for_the_run_itself(db: Database) -> None:
    open_batch(db, "a")
    assert die(db, 4) == (1, 1, "run 3")
    widen = "select pgq.widen_run('q', 'c', %s)"
    assert db.main.one(widen, "run 3") == 1
    assert [db.main.one(widen, "run 4") for _ in range(4)] == [30, 1000, None, None]
    assert db.main.all(ATTEMPT) == [("run 4", None, None)]


def test_begin_of_a_run_keeps_the_parts_that_are_finished(db: Database) -> None:
    batch, (a, _, c) = open_batch(db, *"abc")
    assert finish_part(db.main, batch, a.id, [c.id]) == 1
    die(db, 1)
    db.main.one("select pgq.widen_run('q', 'c', 'run 1')")
    db.main.one("select pgq.end_run('q', 'c', 'run 1')")
    assert db.main.next() == batch
    assert db.main.data(batch) == ["b"]


@pytest.mark.parametrize("holder", [None, "", "x" * 256, "a\nb"])
def test_token_that_cannot_be_shown_is_refused(db: Database, holder: str | None) -> None:
    db.queue()
    with refused("PQ009"):
        db.main.one("select pgq.begin_run('q', 'c', %s)", holder)


@pytest.mark.parametrize("function", ["begin_run", "widen_run", "end_run"])
def test_run_of_an_unknown_consumer_is_refused(db: Database, function: str) -> None:
    db.queue()
    with refused("PQ002"):
        db.main.one(f"select pgq.{function}('q', 'nobody', 'run')")


@pytest.mark.parametrize("function", ["begin_run", "widen_run", "end_run"])
def test_run_with_an_old_snapshot_changes_nothing(db: Database, function: str) -> None:
    open_batch(db, *"ab")
    die(db, 2)
    late = db.open()
    late.begin(RR)
    db.main.one("select pgq.begin_run('q', 'c', 'the newest')")
    with refused("PQ013"):
        late.one(f"select pgq.{function}('q', 'c', 'run 2')")
