"""G5 for readers of tick ranges: of two sessions that move one subscription, one gets an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.ranges import ADVANCE, PIN, fill
from tests.guarantees.sessions import RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session

OLD_SNAPSHOTS = pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])


def _rivals(db: Database, call: str) -> tuple[Session, Future[Any]]:
    """Let one advance, and another call meanwhile; return the one, and what the other waits for."""
    db.queue()
    fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one(ADVANCE, 1, 3) == 1
    late = other.later(call, 1, 4)
    wait_until_blocked(db.main.connection, other.pid)
    return one, late


def test_of_two_that_advance_at_once_one_wins(db: Database) -> None:
    one, late = _rivals(db, ADVANCE)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)
    assert db.main.one("select sub_last_tick from pgq.subscription") == 3
    assert db.main.one(ADVANCE, 1, 3) == 0, "said again"


def test_advance_that_waited_for_one_that_rolled_back_wins(db: Database) -> None:
    one, late = _rivals(db, ADVANCE)
    one.rollback()
    assert late.result(timeout=30) == 1


def test_pin_that_waited_for_an_advance_is_refused(db: Database) -> None:
    one, late = _rivals(db, PIN)
    one.commit()
    with refused("PQ017"):
        late.result(timeout=30)


def test_advance_that_waited_for_the_consumer_to_leave_is_refused(db: Database) -> None:
    db.queue()
    fill(db.main, *"abc")
    one, other = db.open(), db.open()
    one.begin()
    assert one.one("select pgq.unregister_consumer('q', 'c')") == 1
    late = other.later(ADVANCE, 1, 3)
    wait_until_blocked(db.main.connection, other.pid)
    one.commit()
    with refused("PQ002"):
        late.result(timeout=30)
