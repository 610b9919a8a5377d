"""Stages of a dump that was restored where transaction ids are smaller: told by making all larger.

`test_g7_restore.py` restores a dump in earnest, with stages of all kinds in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.stages import DROP, commit_stage, open_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

LARGER_TICKS = """
    update pgq.tick
       set tick_snapshot = format('%s:%s:%s', 1000000 + txid_snapshot_xmin(tick_snapshot),
               1000000 + txid_snapshot_xmax(tick_snapshot),
               (select string_agg((1000000 + x)::text, ',' order by x)
                  from txid_snapshot_xip(tick_snapshot) x))::txid_snapshot;
"""
AS_RESTORED = f"""{LARGER_TICKS}
    update pgq.event_1 set ev_txid = ev_txid + 1000000;
    update pgq.stage set stage_txid = stage_txid + 1000000,
           stage_released_by = case stage_released_by when 0 then 0
                else stage_released_by + 1000000 end;
    update pgq.queue set queue_switch_step1 = queue_switch_step1 + 1000000,
           queue_switch_step2 = queue_switch_step2 + 1000000
"""
REPAIR = "select pgq.repair_queue('q')"
STAGES = "select stage_id from pgq.stage where stage_writer = %s"


def _batch(db: Database, consumer: str) -> list[str]:
    """Take one batch."""
    batch = db.main.next(consumer)
    data = db.main.data(batch)
    assert db.main.finish(batch) == 1
    return data


def _story(db: Database) -> Session:
    """Leave stages of every kind, and three consumers at three ticks; return who is in progress."""
    db.queue(consumers=("c", "behind", "slow"))
    kinds = ("first", "in progress", "last", "waiting", "dropped")
    opened = {kind: stage(db.main, kind, writer=kind) for kind in kinds}
    db.main.one(DROP, "dropped")
    db.main.insert("plain")
    assert db.main.deliver() == _batch(db, "behind") == ["plain"]
    commit_stage(db.main, opened["first"], writer="first")
    assert db.main.deliver() == ["first"]
    giver = db.open()
    giver.begin()
    commit_stage(giver, opened["in progress"], writer="in progress")
    giver.insert("beside")
    assert db.main.deliver() == []
    giver.commit()
    commit_stage(db.main, opened["last"], writer="last")
    stage(db.main, "waiting since the last tick", writer="waiting")
    db.main.run(AS_RESTORED)
    db.main.insert("since the restore")
    return giver


def test_stages_of_before_the_restore_are_lost_and_new_ones_wait_for_the_repair(
    db: Database,
) -> None:
    giver = _story(db)
    waiting = [row[0] for row in db.main.all(STAGES, "waiting")]
    giver.begin()
    with refused("PQ012"):
        open_stage(giver)
    giver.rollback()
    with refused("PQ012"):
        commit_stage(db.main, *waiting, writer="waiting")
    db.main.one(REPAIR)
    with refused("PQ018"):
        commit_stage(db.main, *waiting, writer="waiting")
    again = stage(db.main, "written again", writer="waiting")
    db.main.deliver()
    commit_stage(db.main, again, writer="waiting")
    assert db.main.deliver() == ["written again"]


def test_ledger_outlives_a_restore(db: Database) -> None:
    _story(db)
    db.main.one(REPAIR)
    assert commit_stage(db.main, writer="first") is None
    db.main.begin()
    assert open_stage(db.main, "first") is None
    db.main.rollback()


def test_stage_is_not_committed_where_the_last_tick_would_take_that_for_seen(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    db.main.run(LARGER_TICKS)
    with refused("PQ012"):
        commit_stage(db.main, opened)
    db.main.one(REPAIR)
    assert db.main.deliver() == []


def test_transaction_that_the_last_tick_takes_for_seen_commits_no_stage(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    giver = db.open()
    giver.begin()
    giver.one("select txid_current()")
    db.main.insert("another, so that ids are beyond the giver's")
    db.main.tick()
    # As if the tick had come with the dump, and the cluster's ids had grown up to it since.
    db.main.run("""
        update pgq.tick set tick_snapshot =
            format('%1$s:%1$s:', txid_snapshot_xmax(tick_snapshot))::txid_snapshot""")
    db.main.run("update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        commit_stage(giver, opened)


def test_stages_of_ids_still_to_come_are_noticed_at_the_first_tick(db: Database) -> None:
    db.queue()
    stage(db.main, "a")
    db.main.tick()
    db.main.run("update pgq.stage set stage_txid = stage_txid + 1000000")
    db.main.tick()
    db.main.run("update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        db.main.tick()
    db.main.one(REPAIR)
    db.main.tick()


@pytest.mark.parametrize("named", [("lost",), ("lost", "kept")])
def test_stage_is_not_taken_for_a_lost_one_of_the_same_transaction_id(
    db: Database, named: tuple[str, ...]
) -> None:
    """The savepoint does what a standby that lags does: it forgets a stage, but not its number."""
    db.queue()
    opened: dict[str, int] = {}
    db.main.begin()
    for task in ("lost", "kept"):
        db.main.run("savepoint s")
        opened[task] = open_stage(db.main) or 0
        db.main.insert(task)
        db.main.run("rollback to s" if task == "lost" else "release s")
    db.main.commit()
    with refused("PQ018"):
        commit_stage(db.main, *(opened[each] for each in named))
    assert db.main.deliver() == []
    commit_stage(db.main, opened["kept"])
    assert db.main.deliver() == ["kept"]


def test_rows_of_a_dump_cannot_be_committed_while_its_ids_are_still_to_come(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    db.main.run("update pgq.stage set stage_txid = stage_txid + 1000000")
    with refused("PQ018"):
        commit_stage(db.main, opened)


def test_events_of_since_the_restore_are_not_taken_for_those_of_a_stage(db: Database) -> None:
    db.queue()
    db.main.tick()
    stage(db.main, "waiting")
    db.main.insert("since")
    theirs = db.main.one("select ev_txid from pgq.event_1 where ev_data = 'since'")
    # As if the dump's stage had had the id that this cluster now gave to another.
    db.main.connection.execute("update pgq.stage set stage_txid = %s", [theirs])
    db.main.connection.execute("update pgq.event_1 set ev_txid = %s", [theirs])
    assert db.main.one(REPAIR) == 1
    assert db.main.deliver() == ["since"]


def test_retried_copies_that_a_stage_made_are_not_lost_with_it(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    batch = db.main.next()
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 1
    assert db.main.finish(batch) == 1
    db.main.begin()
    open_stage(db.main)
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.insert("waits")
    db.main.commit()
    db.main.one(DROP, "w")
    assert db.main.one(REPAIR) == 2
    assert db.main.deliver() == ["a"]


def test_transaction_with_the_id_of_a_stage_of_the_dump_is_not_that_stage(db: Database) -> None:
    db.queue()
    task = db.open()
    task.begin()
    task.insert("a")
    row = "insert into pgq.stage values (1, %s, 1, 'w', 1, now() - interval '1 hour', 0)"
    db.main.connection.execute(row, [task.one("select txid_current()")])
    with refused("PQ009"):
        open_stage(task)
