"""Who changed what: noted before the change, ended once, by its own login, kept for 90 days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.guarantees.sessions import Database, Session

BEGIN = "select pgq.begin_change(%s, 'q', 'c', %s, %s)"
END = "select pgq.end_change(%s, %s)"
LIST = "select change_id, action, outcome from pgq.get_changes()"
MAINT = "select pgq.maint_changes()"
DUE = "select count(*) from pgq.maint_operations() where func_name = 'pgq.maint_changes'"
LOGINS = ("changes_ann", "changes_bob")


@pytest.fixture
def logins(db: Database) -> Iterator[tuple[Session, Session]]:
    """Two logins with the role pgq_dashboard."""
    for login in LOGINS:
        db.main.run(f"create role {login} login in role pgq_dashboard")
    sessions = db.open(), db.open()
    for session, login in zip(sessions, LOGINS, strict=True):
        session.run(f"set session authorization {login}")
    yield sessions
    for login in LOGINS:
        db.main.run(f"drop role {login}")


def note(session: Session, action: str, arguments: str | None = None, user: str = "u") -> int:
    """Note a change; return its id."""
    return int(session.one(BEGIN, action, arguments, user))


def test_change_is_there_before_it_is_made_and_says_how_it_ended(db: Database) -> None:
    noted = note(db.main, "drop queue", '{"force": true}', "ann")
    row: tuple[Any, ...]
    (row,) = db.main.all("select * from pgq.get_changes()")
    assert row[:1] + row[2:8] == (
        noted,
        db.main.one("select session_user::text"),
        "ann",
        "drop queue",
        "q",
        "c",
        {"force": True},
    )
    assert row[8:] == (None, None)
    assert db.main.one(END, noted, "x" * 2000) == 1
    (row,) = db.main.all("select end_time >= change_time, outcome from pgq.get_changes()")
    assert row == (True, "x" * 1000)


def test_change_ends_once_and_by_its_own_login(logins: tuple[Session, Session]) -> None:
    ann, bob = logins
    noted = note(ann, "a", user="bob")
    assert bob.one(END, noted, "forged") == 0
    assert ann.one(END, noted, "done") == 1
    assert ann.one(END, noted, "again") == 0
    assert ann.one(END, noted + 1, "nothing") == 0
    assert bob.all(LIST) == [(noted, "a", "done")]
    assert bob.one("select login_name from pgq.get_changes()") == "changes_ann"
    for statement in (
        "update pgq.change set change_login = 'bob'",
        "delete from pgq.change",
        "truncate pgq.change",
        "insert into pgq.change (change_action) values ('forged')",
    ):
        with refused("42501"):
            ann.run(statement)


def test_changes_are_listed_from_the_newest_page_by_page(db: Database) -> None:
    ids = [note(db.main, action) for action in "abcd"]
    page = "select array_agg(action) from pgq.get_changes(%s, %s)"
    assert db.main.one(page, 2, None) == ["d", "c"]
    assert db.main.one(page, 10, ids[2]) == ["b", "a"]
    for wrong in (None, 0, 10_001):
        with refused("PQ009"):
            db.main.one(page, wrong, None)


def test_wrong_changes_are_refused(db: Database) -> None:
    for wrong in (("", None, None), (None, None, None), ("x" * 201, None, None)):
        with refused("PQ009"):
            db.main.one(BEGIN, *wrong)
    with refused("PQ009"):
        db.main.one(BEGIN, "a", None, "x" * 201)
    with refused("PQ009"):
        db.main.one(BEGIN, "a", '{"ids": "%s"}' % ("x" * 10_000), None)
    deep = "[" * 20 + "]" * 20
    for unreadable in ("[1]", '"text"', '{"a": -1e5000}', f'{{"a": {deep}}}'):
        with refused("PQ009"):
            db.main.one(BEGIN, "a", unreadable, None)
    with refused("PQ009"):
        db.main.one(END, note(db.main, "a"), None)
    assert db.main.all(LIST) == [(1, "a", None)]


def test_changes_are_deleted_after_90_days(db: Database) -> None:
    for action in "abc":
        note(db.main, action)
    assert db.main.one(DUE) == 0
    db.main.run(
        "update pgq.change set change_time = now() - interval '91 days' where change_id < 3"
    )
    assert db.main.one(DUE) == 1
    assert db.main.one(MAINT) == 0
    assert db.main.all(LIST) == [(3, "c", None)]
    db.main.run(
        "insert into pgq.change (change_action, change_time)"
        " select 'd', now() - interval '100 days' from generate_series(1, 10001)"
    )
    db.main.run("delete from pgq.change where change_id = 3")
    assert db.main.one(MAINT) == 1
    assert db.main.one(MAINT) == 0
    assert db.main.all(LIST) == []
