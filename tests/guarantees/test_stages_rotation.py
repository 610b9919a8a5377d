"""Rotation and cleaning up beside stages: nothing goes before its time, all of it in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.ranges import EVENTS, ticks
from tests.guarantees.sessions import refused
from tests.guarantees.stage_play import WRITERS, Play
from tests.guarantees.stages import DROP, MAINT, WAITING, age, commit_stage, open_stage, read, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database

LOW = "select queue_low_tick from pgq.queue where queue_id = 1"
ROWS = "select count(*) from pgq.stage"
LAST_TABLE = 2


def _turn(db: Database) -> int:
    """Let others produce, `c` consume and the queue rotate; return its current table."""
    db.main.insert("other")
    assert db.main.deliver() == ["other"]
    return db.main.rotate()


def _staged_in_the_next_table(db: Database, *payloads: str) -> int:
    """Stage events in the table that is the next to be truncated."""
    opened = stage(db.main, *payloads)
    assert [_turn(db) for _ in range(LAST_TABLE)] == [1, LAST_TABLE]
    return opened


def test_table_waits_with_its_events_and_until_the_slowest_consumer_had_them(db: Database) -> None:
    db.queue(consumers=("c", "slow"))
    opened = stage(db.main, "a", "b")
    for table in (1, LAST_TABLE, LAST_TABLE):
        assert _turn(db) == table
        db.main.drain("slow")
    txid = commit_stage(db.main, opened)
    assert db.main.rotate() == LAST_TABLE, "no tick sees it"
    assert db.main.deliver() == ["a", "b"]
    assert db.main.rotate() == LAST_TABLE, "the slow one has still to get it"
    batch = db.main.next("slow")
    assert [event[1:] for event in read(db.main, batch)] == [(txid, "a"), (txid, "b")]
    assert db.main.rotate() == LAST_TABLE, "it is getting it"
    assert db.main.finish(batch) == 1
    assert db.main.rotate() == 0


def test_table_waits_while_a_commit_is_in_progress(db: Database) -> None:
    db.queue()
    opened = _staged_in_the_next_table(db, "a")
    giver = db.open()
    giver.begin()
    commit_stage(giver, opened)
    assert _turn(db) == LAST_TABLE
    giver.commit()
    assert db.main.rotate() == LAST_TABLE, "in progress at the last tick"
    assert db.main.deliver() == ["a"]
    assert db.main.rotate() == 0


def _drop(db: Database) -> None:
    assert db.main.one(DROP, "w") == 1


def _forget(db: Database) -> None:
    assert db.main.one(MAINT) == 0
    assert db.main.one(WAITING) == 1, "it is there for a day"
    age(db.main)
    assert db.main.one(MAINT) == 0


def _open_ahead(db: Database) -> None:
    db.main.run("update pgq.stage set stage_time = now() + interval '25 hours'")
    assert db.main.one(MAINT) == 0


def _commit_another(db: Database) -> None:
    commit_stage(db.main, stage(db.main, "of the attempt that was taken"))
    assert db.main.one(MAINT) == 0
    assert db.main.deliver() == ["of the attempt that was taken"]


GIVE_UP = {
    "drop": _drop,
    "a day passes": _forget,
    "the clock was ahead": _open_ahead,
    "another is committed": _commit_another,
}


@pytest.mark.parametrize("give_up", GIVE_UP.values(), ids=GIVE_UP.keys())
def test_table_waits_no_longer_when_its_events_are_given_up(
    db: Database, give_up: Callable[[Database], None]
) -> None:
    db.queue()
    opened = _staged_in_the_next_table(db, "a")
    assert _turn(db) == LAST_TABLE
    give_up(db)
    if give_up is _commit_another:
        assert commit_stage(db.main, opened) is None, "done before"
    else:
        with refused("PQ018"):
            commit_stage(db.main, opened)
    assert _turn(db) == 0, "and c got nothing but what others wrote"


def test_low_tick_sees_the_commits_of_what_was_truncated(db: Database) -> None:
    db.queue()
    opened = _staged_in_the_next_table(db, "a")
    commit_stage(db.main, opened)
    db.main.insert("b")
    assert db.main.deliver() == ["a", "b"]
    last = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    assert db.main.rotate() == 0
    assert db.main.one(LOW) == last
    with refused("PQ016"):
        db.main.all(EVENTS, last - 1, last)


def test_reader_at_the_low_tick_gets_all_that_is_committed_since(db: Database) -> None:
    db.queue()
    early, late = (stage(db.main, name, writer=name) for name in ("early", "late"))
    assert [_turn(db) for _ in range(LAST_TABLE)] == [1, LAST_TABLE]
    commit_stage(db.main, early, writer="early")
    assert db.main.deliver() == ["early"]
    assert _turn(db) == LAST_TABLE
    low = db.main.one(LOW)
    assert db.main.one("select pgq.register_consumer_at('q', 'new', %s)", low) == 1
    commit_stage(db.main, late, writer="late")
    db.main.tick()
    assert db.main.drain("new") == ["other", "early", "other", "late"]
    found = db.main.all(EVENTS, low, ticks(db.main)[-1])
    assert [data for _, _, data in found] == ["early", "late", "other", "other"]


def test_what_waited_is_remembered_as_long_as_its_events_are_there(db: Database) -> None:
    db.queue(consumers=("c", "slow"))
    given, _, _ = (stage(db.main, name, writer=name) for name in ("given", "dropped", "old"))
    db.main.tick()
    age(db.main)
    commit_stage(db.main, given, writer="given")
    db.main.one(DROP, "dropped")
    for _ in range(3):
        assert db.main.one(MAINT) == 0
    assert db.main.deliver() == ["given"]
    assert db.main.one(ROWS) == 3
    assert [_turn(db) for _ in range(LAST_TABLE + 1)] == [1, LAST_TABLE, LAST_TABLE]
    assert db.main.one(MAINT) == 0
    assert db.main.one(ROWS) == 3, "the slow one would be given all of them"
    assert db.main.drain("slow") == ["given", *["other"] * 3]
    assert db.main.rotate() == 0
    assert db.main.one(MAINT) == 0
    assert db.main.one(ROWS) == 0


def test_what_waited_in_two_tables_is_remembered_until_both_are_emptied(db: Database) -> None:
    db.queue()
    task = db.open()
    task.begin()
    opened = open_stage(task)
    task.insert("a")
    assert _turn(db) == 1
    task.insert("b")
    task.commit()
    assert opened is not None
    commit_stage(db.main, opened)
    assert db.main.deliver() == ["a", "b"]
    assert _turn(db) == LAST_TABLE
    for table, rows in ((0, 1), (1, 0)):
        assert _turn(db) == table
        assert db.main.one(MAINT) == 0
        assert db.main.one(ROWS) == rows


def test_nothing_is_left_when_all_is_over(db: Database) -> None:
    db.queue(consumers=("c", "slow"))
    Play(db, 20, ("c", "slow")).run(150)
    for writer in WRITERS:
        db.main.one(DROP, writer)
    for _ in range(4):
        _turn(db)
        db.main.drain("slow")
        db.main.one(MAINT)
    assert db.main.one(ROWS) == 0
    assert {data for (data,) in db.main.all("select ev_data from pgq.event_1")} == {"other"}
