"""The name of a writer belongs to the role that used it first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.schema.statements import COMMIT, INSERT, OPEN
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FAR = 10**18
DROP = "select pgq.drop_stage('q', 'w')"


@pytest.fixture
def login(
    queue: str, sql: Callable[..., Any], connect: Callable[..., Any]
) -> Iterator[Callable[..., Any]]:
    """Log in as a member of pgq_writer: `login("ann", "team")` is in the role team as well."""
    roles = ["writer_ann", "writer_bob", "writer_team"]
    for role in roles:
        sql(f"create role {role} login in role pgq_writer")

    def log_in(name: str, *groups: str) -> psycopg.Connection[Any]:
        for group in groups:
            sql(f"grant writer_{group} to writer_{name}")
        session = connect()
        session.execute(f"set session authorization writer_{name}")
        return session

    yield log_in
    for role in roles:
        sql(f"drop role if exists {role}")


def stage(session: psycopg.Connection[Any], epoch: int, data: str = "a") -> int:
    with session.transaction():
        opened = session.execute(OPEN, ("w", epoch)).fetchone()
        session.execute(INSERT, [data])
    assert opened is not None
    return int(opened[0])


def commit(session: psycopg.Connection[Any], epoch: int, *stages: int) -> int:
    done = session.execute(COMMIT, ("w", epoch, list(stages), len(stages))).fetchone()
    assert done is not None
    return int(done[0])


def test_no_role_uses_the_name_of_another_roles_writer(login, given):
    ann, bob = login("ann"), login("bob")
    first = stage(ann, 1)
    for attack in (
        lambda: commit(bob, FAR),
        lambda: commit(bob, 1, first),
        lambda: bob.execute(DROP),
        lambda: stage(bob, 2),
    ):
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="belongs to role writer_ann"
        ):
            attack()
    assert commit(ann, 1, first) == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="belongs to role writer_ann"):
        commit(bob, FAR)
    assert commit(ann, 2, stage(ann, 2, "b")) == 1
    assert given() == ["a", "b"]


def test_name_of_another_roles_writer_is_refused_and_not_reported_as_committed(login):
    ann, bob = login("ann"), login("bob")
    assert commit(bob, FAR) == 1
    for attempt in (lambda: stage(ann, 1), lambda: commit(ann, 1)):
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="belongs to role writer_bob"
        ):
            attempt()


def test_a_name_that_another_role_takes_at_the_same_moment_is_refused(login, connection):
    ann, bob = login("ann"), login("bob")
    bob.execute("begin")
    commit(bob, FAR)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(commit, ann, 1)
        wait_until_blocked(connection, ann.info.backend_pid)
        bob.execute("commit")
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match="belongs to role writer_bob"
        ):
            waiting.result(timeout=30)


def test_members_of_the_role_that_was_set_share_a_writer(login, given):
    ann, bob = login("ann", "team"), login("bob", "team")
    for session in (ann, bob):
        session.execute("set role writer_team")
    first = stage(ann, 1)
    assert commit(bob, 1, first) == 1
    bob.execute("reset role")
    assert commit(bob, 2, stage(ann, 2, "b")) == 1
    assert given() == ["a", "b"]


def test_writer_of_a_dropped_role_is_free(login, sql):
    ann, bob = login("ann"), login("bob")
    assert commit(ann, 1, stage(ann, 1)) == 1
    ann.close()
    sql("drop role writer_ann")
    assert commit(bob, 1) == 0
    assert commit(bob, 2, stage(bob, 2)) == 1
    assert sql("select ledger_role from pgq.ledger") == "writer_bob"
