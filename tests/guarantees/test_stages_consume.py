"""Staged events in the hands of consumers: set aside, given up on, read with old snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import RR, SERIALIZABLE, refused
from tests.guarantees.stages import READ, commit_stage, open_stage, read, stage

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

RETRY = {
    "id": "select pgq.event_retry(%(batch)s, %(id)s, 0)",
    "time": "select pgq.event_retry(%(batch)s, %(id)s, now())",
    "arrays": """select pgq.event_retry(%(batch)s, array[%(id)s]::bigint[],
        array[%(txid)s]::bigint[], array[interval '0'])""",
}
DEAD = "select pgq.event_dead(%s, %s, %s, %s)"
OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])


def _staged_batch(db: Database) -> int:
    """Open a batch with events of two stages."""
    db.queue(consumers=("c", "other"))
    opened = [stage(db.main, "a", "b"), stage(db.main, "c")]
    db.main.tick()
    commit_stage(db.main, *opened)
    db.main.tick()
    assert db.main.finish(db.main.next()) == 1
    batch = db.main.next()
    assert batch is not None
    return batch


@pytest.mark.parametrize("form", RETRY)
def test_staged_event_set_aside_comes_again_to_its_consumer(db: Database, form: str) -> None:
    batch = _staged_batch(db)
    _, (ev_id, txid, _), _ = read(db.main, batch)
    names = {"batch": batch, "id": ev_id, "txid": txid}
    for expected in (1, 0):
        found = db.main.connection.execute(RETRY[form].encode(), names).fetchone()
        assert found == (expected,)
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 1
    db.main.tick()
    again = db.main.next()
    events = "select ev_id, ev_data, ev_retry from pgq.get_batch_events(%s)"
    assert db.main.all(events, again) == [(ev_id, "b", 1)]
    assert db.main.finish(again) == 1
    assert db.main.drain("other") == ["a", "b", "c"]


@pytest.mark.parametrize("late", [False, True])
def test_retried_copy_does_not_wait_with_the_stage_whose_transaction_made_it(
    db: Database, *, late: bool
) -> None:
    batch = _staged_batch(db)
    ev_id, txid, _ = read(db.main, batch)[0]
    names = {"batch": batch, "id": ev_id, "txid": txid}
    db.main.connection.execute(RETRY["id"].encode(), names)
    assert db.main.finish(batch) == 1
    task = db.open()
    task.begin()
    opened = open_stage(task, epoch=2)
    assert task.one("select pgq.maint_retry_events()") == 1
    task.insert("waits")
    if late:
        db.main.insert("meanwhile")  # so the tick lists the task among those in progress
        assert db.main.deliver() == ["meanwhile"]
    task.commit()
    assert db.main.deliver() == ["a"]
    assert opened is not None
    commit_stage(db.main, opened, epoch=2)
    assert db.main.deliver() == ["waits"]


def test_staged_events_are_set_aside_as_a_batch(db: Database) -> None:
    batch = _staged_batch(db)
    assert db.main.one("select pgq.batch_retry(%s, 0)", batch) == 3
    assert db.main.finish(batch) == 1
    assert db.main.one("select pgq.maint_retry_events()") == 3
    assert db.main.deliver() == ["a", "b", "c"]


def test_staged_event_given_up_on_is_kept_and_can_be_revived(db: Database) -> None:
    batch = _staged_batch(db)
    events = read(db.main, batch)
    ids, txids = [event[0] for event in events[1:]], [event[1] for event in events[1:]]
    assert db.main.one(DEAD, batch, ids, txids, ["why", "so"]) == 2
    assert db.main.finish(batch) == 1
    dead = db.main.all("select ev_id, ev_txid, ev_data from pgq.dead_event order by 1")
    assert dead == events[1:]
    assert db.main.one("select count(*) from pgq.revive_dead_events('q', 'c', %s)", ids) == 2
    while db.main.one("select pgq.maint_retry_events()"):
        pass
    assert db.main.deliver() == ["b", "c"]


def test_staged_event_is_not_found_by_the_id_of_its_own_transaction(db: Database) -> None:
    batch = _staged_batch(db)
    (ev_id, _, _), *_ = read(db.main, batch)
    own = db.main.one("select min(ev_txid) from pgq.event_1")
    with refused("PQ004"):
        db.main.one(DEAD, batch, [ev_id], [own], ["why"])


@OLD_SNAPSHOTS
def test_snapshot_from_before_a_commit_reads_whole_batches_only(
    db: Database, isolation: str
) -> None:
    db.queue()
    opened = [stage(db.main, "a", "b"), stage(db.main, "c")]
    db.main.insert("plain")
    db.main.tick()
    batch = db.main.next()
    before, middle = db.open(), db.open()
    before.begin(isolation)
    txid = commit_stage(db.main, *opened)
    middle.begin(isolation)
    db.main.tick()
    assert before.data(batch) == middle.data(batch) == db.main.data(batch) == ["plain"]
    assert db.main.finish(batch) == 1
    batch = db.main.next()
    for session in (before, middle):
        with refused("40001", "PQ003"):  # it does not see that the batch was opened
            session.one(READ, batch)
        session.rollback()
    after = db.open()
    after.begin(isolation)
    assert db.main.rotate() == 1
    db.main.one("select pgq.maint_stages()")
    with refused("40001"):  # a table was truncated after its snapshot
        after.all(READ, batch)
    after.rollback()
    after.begin(isolation)
    expected = [(txid, data) for data in ("a", "b", "c")]
    assert [event[1:] for event in after.all(READ, batch)] == expected
    assert [event[1:] for event in read(db.main, batch)] == expected


@OLD_SNAPSHOTS
def test_commit_with_an_old_snapshot_is_done_once(db: Database, isolation: str) -> None:
    db.queue()
    opened = stage(db.main, "a")
    old = db.open()
    old.begin(isolation)
    assert commit_stage(db.main, opened) is not None
    with refused("40001"):
        commit_stage(old, opened)
    old.rollback()
    assert commit_stage(old, opened) is None
    assert db.main.deliver() == ["a"]


def _rows_read(plan: dict[str, Any]) -> float:
    """Sum up what the scans of a plan found, dropped rows included."""
    below = sum(_rows_read(child) for child in plan.get("Plans", ()))
    found = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    scans = "Index Cond" in plan or "Relation Name" in plan
    return below + found * plan["Actual Loops"] * scans


def test_batch_of_many_stages_reads_nothing_but_their_events(db: Database) -> None:
    db.queue()
    db.main.one("""
        select count(*) from pgq.insert_events('q', array_fill('t'::text, array[50000]),
            array_fill('d'::text, array[50000]))""")
    opened = [stage(db.main, "a") for _ in range(200)]
    db.main.deliver()
    commit_stage(db.main, *opened)
    db.main.tick()
    query = db.main.one("select pgq.batch_event_sql(%s)", db.main.next())
    db.main.run("set enable_seqscan = off")
    (plan,) = db.main.one(f"explain (analyze, format json) {query}")
    assert 200 <= _rows_read(plan["Plan"]) <= 1000
