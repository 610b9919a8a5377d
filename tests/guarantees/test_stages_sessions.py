"""Stages between sessions at once, and staged events in the hands of consumers."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.guarantees.sessions import RR, refused
from tests.guarantees.stages import DROP, MAINT, READ, age, commit_stage, open_stage, read, stage
from tests.guarantees.test_faults_drop import DROP as DROP_QUEUE
from tests.guarantees.test_faults_drop import GONE
from tests.schema.statements import COMMIT
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session


REPAIR = "select pgq.repair_queue('q')"


CALLS_OF_TWO: dict[str, tuple[str, tuple[Any, ...]]] = {
    "commit": (COMMIT, ("w", 1, [None], 1)),
    "drop": (DROP, ("w",)),
    "maintain": (MAINT, ()),
    "repair": (REPAIR, ()),
}
OF_TWO = [  # the first call, the one that waits, how the first ends, the answer, what is delivered
    ("commit", "commit", "commit", 0, ["a"]),
    ("commit", "commit", "rollback", 1, ["a"]),
    ("drop", "commit", "commit", "PQ018", []),
    ("maintain", "commit", "commit", "PQ018", []),
    ("repair", "commit", "commit", "PQ018", []),
    ("commit", "drop", "commit", 0, ["a"]),
    ("commit", "repair", "commit", 1, ["a"]),
]


@pytest.mark.parametrize(("first", "second", "end", "answer", "delivered"), OF_TWO)
def test_stage_is_given_once_or_given_up_whole(
    db: Database, first: str, second: str, end: str, answer: int | str, delivered: list[str]
) -> None:
    db.queue()
    opened = stage(db.main, "a")
    if first == "maintain":
        age(db.main)

    def call(name: str) -> tuple[Any, ...]:
        query, args = CALLS_OF_TWO[name]
        return (query, *([opened] if arg == [None] else arg for arg in args))

    with refused(answer) if isinstance(answer, str) else nullcontext():
        assert db.behind(lambda one: one.one(*call(first)), *call(second), end=end) == answer
    if isinstance(answer, str):
        assert db.main.one("select count(*) from pgq.ledger") == 0
    assert db.main.deliver() == delivered


def test_maintenance_passes_over_what_somebody_commits(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a", epoch=1)
    commit_stage(db.main, opened, epoch=1)
    assert db.main.deliver() == ["a"]
    opened = stage(db.main, "b", epoch=2)
    age(db.main)
    db.main.run("update pgq.ledger set ledger_time = now() - interval '91 days'")
    giver = db.open()
    giver.begin()
    commit_stage(giver, opened, epoch=2)
    db.main.run("set lock_timeout = '1s'")
    assert db.main.one(MAINT) == 0
    giver.commit()
    assert db.main.one(MAINT) == 0
    assert db.main.one("select ledger_epoch from pgq.ledger") == 2
    assert db.main.deliver() == ["b"]


@pytest.mark.parametrize("whole", [REPAIR, DROP_QUEUE])
def test_commit_in_the_middle_of_its_call_is_waited_for(db: Database, whole: str) -> None:
    db.queue()
    opened = stage(db.main, "a")
    holder, giver, admin = db.open(), db.open(), db.open()
    holder.begin()
    holder.one("select stage_txid from pgq.stage for update")
    given = giver.later(COMMIT, "w", 1, [opened], 1)  # has the ledger, wants the stage
    wait_until_blocked(db.main.connection, giver.pid)
    done = admin.later(whole)
    assert wait_until_blocked(db.main.connection, admin.pid) == [giver.pid]
    holder.rollback()
    assert given.result(timeout=30) == 1
    assert done.result(timeout=30) == 1


def _insert(session: Session, _: int) -> None:
    session.insert("x")


def _open(session: Session, _: int) -> None:
    open_stage(session, writer="v", epoch=2)


def _commit(session: Session, opened: int) -> None:
    commit_stage(session, opened, epoch=2)


def _commit_own(session: Session, _: int) -> None:
    own = open_stage(session, writer="v", epoch=2)
    if own is not None:
        commit_stage(session, own, writer="v", epoch=2)


def _drop(session: Session, _: int) -> None:
    session.one(DROP, "w")


def _maintain(session: Session, _: int) -> None:
    session.one(MAINT)


CALLS = {
    "insert": _insert,
    "open": _open,
    "commit": _commit,
    "commit own": _commit_own,
    "drop": _drop,
}
ORDERS = [*product(CALLS.values(), repeat=2), (_maintain, _maintain)]


def test_drop_of_a_queue_and_who_stages_do_not_wait_for_each_other(
    db: Database, subtests: pytest.Subtests
) -> None:
    for number, (first, then) in enumerate(ORDERS):
        with subtests.test(first=first.__name__, then=then.__name__):
            drop_beside(db, first, then, known=("v", "w") if number % 2 else ())


def drop_beside(
    db: Database,
    first: Callable[[Session, int], None],
    then: Callable[[Session, int], None],
    *,
    known: tuple[str, ...],
) -> None:
    """Drop the queue between two calls of a transaction that stages, by known writers or not."""
    db.queue()
    for writer in known:
        commit_stage(db.main, stage(db.main, "a", writer=writer), writer=writer)
    opened = stage(db.main, "b", epoch=2)
    user, admin = db.open(), db.open()
    user.begin()
    first(user, opened)
    dropped = admin.later(DROP_QUEUE)
    _settled(db, admin, dropped)
    state = None
    try:
        then(user, opened)
        user.commit()
    except psycopg.Error as error:
        state = error.sqlstate
        user.rollback()
    assert state in {None, "PQ018", *GONE}
    assert dropped.result(timeout=30) == 1
    db.main.one(MAINT)
    for table in ("stage", "ledger"):
        assert db.main.one(f"select count(*) from pgq.{table}") == 0


def _settled(db: Database, session: Session, call: Any) -> None:
    """Wait until a call waits for a lock, or is done."""
    blocked = "select cardinality(pg_blocking_pids(%s)) > 0"
    eventually(lambda: call.done() or db.main.one(blocked, session.pid))


RETRY = {
    "id": "select pgq.event_retry(%(batch)s, %(id)s, 0)",
    "time": "select pgq.event_retry(%(batch)s, %(id)s, now())",
    "arrays": """select pgq.event_retry(%(batch)s, array[%(id)s]::bigint[],
        array[%(txid)s]::bigint[], array[interval '0'])""",
}
DEAD = "select pgq.event_dead(%s, %s, %s, %s)"


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


def test_snapshot_from_before_a_commit_reads_whole_batches_only(db: Database) -> None:
    db.queue()
    opened = [stage(db.main, "a", "b"), stage(db.main, "c")]
    db.main.tick_after("plain")
    batch = db.main.next()
    before, middle = db.open(), db.open()
    before.begin(RR)
    txid = commit_stage(db.main, *opened)
    middle.begin(RR)
    db.main.tick()
    assert before.data(batch) == middle.data(batch) == db.main.data(batch) == ["plain"]
    assert db.main.finish(batch) == 1
    batch = db.main.next()
    for session in (before, middle):
        with refused("40001", "PQ003"):  # it does not see that the batch was opened
            session.one(READ, batch)
        session.rollback()
    after = db.open()
    after.begin(RR)
    assert db.main.rotate() == 1
    db.main.one("select pgq.maint_stages()")
    with refused("40001"):  # a table was truncated after its snapshot
        after.all(READ, batch)
    after.rollback()
    after.begin(RR)
    expected = [(txid, data) for data in ("a", "b", "c")]
    assert [event[1:] for event in after.all(READ, batch)] == expected
    assert [event[1:] for event in read(db.main, batch)] == expected


def test_commit_with_an_old_snapshot_is_done_once(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    old = db.open()
    old.begin(RR)
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
