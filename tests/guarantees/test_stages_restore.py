"""Stages of a dump that was restored where transaction ids are smaller: told by making all larger.

`test_g7_restore.py` restores a dump in earnest, with stages of all kinds in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.stages import DROP, commit_stage, open_stage, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LARGER_TICKS = """
    update pgq.tick
       set tick_snapshot = format('%s:%s:%s', 1000000 + txid_snapshot_xmin(tick_snapshot),
               1000000 + txid_snapshot_xmax(tick_snapshot),
               (select string_agg((1000000 + x)::text, ',' order by x)
                  from txid_snapshot_xip(tick_snapshot) x))::txid_snapshot;
"""
REPAIR = "select pgq.repair_queue('q')"


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
