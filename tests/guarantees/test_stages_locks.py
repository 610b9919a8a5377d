"""Stages between sessions at once: one of them does it, and none waits for a cycle of others."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.stages import (
    DROP,
    MAINT,
    age,
    commit_stage,
    open_stage,
    stage,
)
from tests.guarantees.test_faults_drop import DROP as DROP_QUEUE
from tests.guarantees.test_faults_drop import GONE
from tests.schema.stages import COMMIT
from tests.support.gates import wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session

REPAIR = "select pgq.repair_queue('q')"


@pytest.mark.parametrize(("end", "result"), [("commit", 0), ("rollback", 1)])
def test_of_two_that_commit_at_once_one_gives_the_events(
    db: Database, end: str, result: int
) -> None:
    db.queue()
    opened = stage(db.main, "a")
    first, second = db.open(), db.open()
    first.begin()
    commit_stage(first, opened)
    late = second.later(COMMIT, "w", 1, [opened], 1)
    assert wait_until_blocked(db.main.connection, second.pid) == [first.pid]
    first.run(end)
    assert late.result(timeout=30) == result
    assert db.main.deliver() == ["a"]


@pytest.mark.parametrize(("call", "args"), [(DROP, ("w",)), (MAINT, ())])
def test_commit_that_waited_while_its_stage_was_given_up_fails(
    db: Database, call: str, args: tuple[str, ...]
) -> None:
    db.queue()
    opened = stage(db.main, "a")
    age(db.main)
    other, giver = db.open(), db.open()
    other.begin()
    other.one(call, *args)
    late = giver.later(COMMIT, "w", 1, [opened], 1)
    assert wait_until_blocked(db.main.connection, giver.pid) == [other.pid]
    other.commit()
    with refused("PQ018"):
        late.result(timeout=30)
    assert db.main.deliver() == []
    assert db.main.one("select count(*) from pgq.ledger") == 0


def test_drop_that_waited_for_a_commit_takes_nothing(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    giver, other = db.open(), db.open()
    giver.begin()
    commit_stage(giver, opened)
    late = other.later(DROP, "w")
    assert wait_until_blocked(db.main.connection, other.pid) == [giver.pid]
    giver.commit()
    assert late.result(timeout=30) == 0
    assert db.main.deliver() == ["a"]


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


def test_repair_waits_for_a_commit_in_progress_and_keeps_its_events(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    giver, admin = db.open(), db.open()
    giver.begin()
    commit_stage(giver, opened)
    repaired = admin.later(REPAIR)
    assert wait_until_blocked(db.main.connection, admin.pid) == [giver.pid]
    giver.commit()
    assert repaired.result(timeout=30) == 1
    assert db.main.deliver() == ["a"]


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


def test_commit_that_waited_for_a_repair_is_refused(db: Database) -> None:
    db.queue()
    opened = stage(db.main, "a")
    admin, giver = db.open(), db.open()
    admin.begin()
    admin.one(REPAIR)
    late = giver.later(COMMIT, "w", 1, [opened], 1)
    assert wait_until_blocked(db.main.connection, giver.pid) == [admin.pid]
    admin.commit()
    with refused("PQ018"):
        late.result(timeout=30)
    assert db.main.deliver() == []


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


@pytest.mark.parametrize("known", [True, False])
def test_drop_of_a_queue_and_who_stages_do_not_wait_for_each_other(
    db: Database, subtests: pytest.Subtests, known: bool
) -> None:
    for first, then in ORDERS:
        with subtests.test(first=first.__name__, then=then.__name__):
            drop_beside(db, first, then, known=known)


def drop_beside(
    db: Database,
    first: Callable[[Session, int], None],
    then: Callable[[Session, int], None],
    *,
    known: bool,
) -> None:
    """Drop the queue between two calls of a transaction that stages."""
    db.queue()
    for writer in ("v", "w") if known else ():
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
