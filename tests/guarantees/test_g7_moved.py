"""G7: the first ticks after a restore where transaction ids were smaller and have grown since.

The restore is told by its traces: the last tick and other rows carry ids that this cluster gives
to somebody else. `test_g7_restore.py` restores dumps in earnest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

MOVED = "update pgq.queue set queue_system_id = 1"  # as if it came from another cluster
RESTORED = "update pgq.checked set checked_xmin = 1"  # as if from a physical copy of this one
# As if a restore into a copy wrote all rows by the very id that one of them holds.
TWICE = """
    update pgq.checked set checked_xmin = case checked_number
        when 1 then pg_current_xact_id()::xid::text::bigint else checked_xmin end
"""
LAST_TICK = """
    update pgq.tick set tick_snapshot = %s::text::txid_snapshot
     where tick_id = (select max(tick_id) from pgq.tick where tick_queue = 1)
"""
REPAIR = "select pgq.repair_queue('q')"


def _xid(session: Session) -> int:
    return int(session.one("select txid_current()"))


# A tick lists its own transaction as in progress, another call does not.
CALLS = ["select tick_id from pgq.tick_queue('q')", "select pgq.maint_rotate_tables_step1('q')"]


def _last_tick(db: Database, snapshot: str) -> None:
    db.main.connection.execute(LAST_TICK, [snapshot])


def _producer(db: Database) -> tuple[Session, int]:
    """A session in the middle of a transaction that has inserted an event, and its id."""
    producer = db.open()
    producer.begin()
    producer.insert("in progress")
    return producer, _xid(producer)


def _expect_refusal_until_repaired(db: Database, *left: str) -> None:
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    db.main.tick()
    for consumer in ("c", "behind"):
        assert sorted(db.main.drain(consumer)) == sorted(left)


@pytest.mark.parametrize("told", [MOVED, "select"], ids=["other cluster", "same identifier"])
def test_producer_that_the_last_tick_takes_for_done_is_noticed(db: Database, told: str) -> None:
    db.queue(consumers=("c", "behind"))
    older = _xid(db.main)
    producer, _ = _producer(db)
    db.main.tick()
    db.main.drain("c")
    _last_tick(db, f"{older}:{_xid(db.main) + 1}:{older}")
    db.main.run(told)
    with refused("PQ012"):  # else "behind" would be given the event in two batches
        db.main.tick()
    producer.commit()
    db.main.one(REPAIR)
    db.main.tick()
    assert db.main.drain("behind") == ["in progress"]


@pytest.mark.parametrize("told", [MOVED, RESTORED, TWICE])
def test_event_that_the_last_tick_takes_for_seen_is_noticed(db: Database, told: str) -> None:
    db.queue(consumers=("c", "behind"))
    db.main.tick()
    db.main.insert("since the restore")
    after = _xid(db.main) + 1
    _last_tick(db, f"{after}:{after}:")
    db.main.run(told)
    _expect_refusal_until_repaired(db, "since the restore")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("saw", ["{older}:{after}:{older}", "{after}:{after}:"])
def test_caller_that_the_last_tick_takes_for_done_is_noticed(
    db: Database, saw: str, call: str
) -> None:
    db.queue()
    older = _xid(db.main)
    ticker = db.open()
    ticker.begin()
    _xid(ticker)
    _last_tick(db, saw.format(older=older, after=_xid(db.main) + 1))
    db.main.run(MOVED)
    with refused("PQ012"):  # else what it inserts from here on would be lost
        ticker.one(call)
    ticker.rollback()


def test_ids_behind_those_of_the_last_tick_are_noticed_beside_an_old_producer(db: Database) -> None:
    db.queue(consumers=("c", "behind"))
    older = _xid(db.main)
    _last_tick(db, f"{older}:{older + 1_000_000}:{older}")
    db.main.insert("since the restore")
    _expect_refusal_until_repaired(db, "since the restore")


@pytest.mark.parametrize("later", [1_000_000, 0], ids=["to come", "in progress"])
def test_event_of_the_dump_with_an_id_not_yet_used_up_here_is_noticed(
    db: Database, later: int
) -> None:
    db.queue(consumers=("c", "behind"))
    other = db.open()
    other.begin()
    theirs = _xid(other) + later
    db.main.insert("of the dump")
    db.main.connection.execute("update pgq.event_1 set ev_txid = %s", [theirs])
    db.main.run(MOVED)
    _expect_refusal_until_repaired(db, "of the dump")
    other.rollback()


STAGE_OF_THE_DUMP = """
    insert into pgq.stage (stage_queue, stage_txid, stage_id, stage_writer, stage_time)
    values (1, %s, 1, 'w', now() - interval '1 hour')
"""


def test_stage_of_the_dump_with_the_id_of_an_open_producer_is_noticed(db: Database) -> None:
    db.queue(consumers=("c", "behind"))
    other = db.open()
    other.begin()  # and will insert: the stage would hide that
    db.main.connection.execute(STAGE_OF_THE_DUMP, [_xid(other)])
    db.main.run(MOVED)
    _expect_refusal_until_repaired(db)
    other.insert("in progress")
    other.commit()
    db.main.tick()
    assert db.main.drain("c") == db.main.drain("behind") == ["in progress"]


def test_stage_of_the_dump_with_the_id_of_a_producer_that_is_done_is_noticed(db: Database) -> None:
    db.queue(consumers=("c", "behind"))
    producer, theirs = _producer(db)
    producer.commit()
    db.main.connection.execute(STAGE_OF_THE_DUMP, [theirs])
    db.main.run(MOVED)
    _expect_refusal_until_repaired(db, "in progress")


def test_move_that_takes_every_id_along_goes_on_by_itself(db: Database) -> None:
    db.queue(consumers=("c", "behind"))
    producer, _ = _producer(db)
    db.main.tick()
    db.main.insert("since")
    db.main.run(MOVED)
    ticker = db.open()
    ticker.begin()
    ticker.insert("of the ticker")  # its id is the newest: its own snapshots do not see it
    ticker.tick()
    ticker.tick_after("after the tick")
    ticker.commit()
    producer.commit()
    db.main.tick()
    given = ["after the tick", "in progress", "of the ticker", "since"]
    assert [sorted(db.main.drain(consumer)) for consumer in ("c", "behind")] == [given, given]


@pytest.mark.parametrize("call", ["tick_queue('q')", "repair_queue('q')"])
def test_queue_whose_ticks_a_restore_has_yet_to_bring_gets_none(db: Database, call: str) -> None:
    """A second tick 1 would stand beside that of the dump: they come in two tables."""
    db.queue()
    db.main.tick_after("a")
    ticks = "create table saved as select * from pgq.tick; delete from pgq.tick"
    db.main.run(ticks)
    with refused("PQ012"):
        db.main.one(f"select 1 from pgq.{call}")
    db.main.run("insert into pgq.tick_recent select * from saved")
    assert db.main.drain() == ["a"]


def test_ticks_that_a_restore_brings_behind_the_first_tick_are_noticed(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    _last_tick(db, "1000000:1000000:")
    late = "where tick_id = (select max(tick_id) from pgq.tick where tick_queue = 1)"
    db.main.run(f"create table late as select * from pgq.tick {late}")
    db.main.run(f"delete from pgq.tick {late}")
    db.main.run(RESTORED)
    db.main.tick()
    db.main.run("insert into pgq.tick_recent select * from late")
    db.main.insert("b")
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    db.main.tick()
    assert sorted(db.main.drain()) == ["a", "b"]
