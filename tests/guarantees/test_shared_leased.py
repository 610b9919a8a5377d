"""Workers that name no subconsumer: a lease and a token are all that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import refused
from tests.guarantees.workers import ENDED
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

TAKE = "select batch_id, worker from pgq.take_part('q', %s, null, %s, %s::interval)"
LEFT = "select extract(epoch from max(pos_until) - now()) from pgq.position where pos_batch = %s"
WROTE_OR_LOCKED = "select pg_current_xact_id_if_assigned() is not null"


def take(session: Session, holder: str, lease: str = "1 minute") -> tuple[Any, ...]:
    """Take a range: its batch, and the subconsumer that has it."""
    ((batch, worker),) = session.all(TAKE, "c", holder, lease)
    return batch, worker


def filled(db: Database, ranges: str) -> None:
    """Make the queue with a consumer, and one event in each range."""
    db.queue()
    for data in ranges:
        db.main.insert(data)
        db.main.tick()


def test_worker_gets_a_subconsumer_that_is_free(db: Database) -> None:
    filled(db, "abc")
    (one, first), (other, second) = take(db.main, "one"), take(db.main, "other")
    assert (first, second) == ("lease-1", "lease-2")
    assert [db.main.data(one), db.main.data(other)] == [["a"], ["b"]]
    assert db.main.finish(one) == 1
    third, again = take(db.main, "third")
    assert (db.main.data(third), again) == (["c"], "lease-1")


def test_range_of_a_run_is_found_by_its_token_and_its_lease_extended(db: Database) -> None:
    filled(db, "ab")
    batch, worker = take(db.main, "one")
    assert take(db.main, "one", "1 hour") == (batch, worker)
    assert db.main.one(LEFT, batch) > 60
    assert take(db.main, "one") == (batch, worker)
    assert db.main.one(LEFT, batch) > 60, "a lease is never cut short"


def test_lease_that_ended_is_good_until_another_worker_comes(db: Database) -> None:
    filled(db, "a")
    batch, _ = take(db.main, "one")
    db.main.run(ENDED % batch)
    assert take(db.main, "one")[0] == batch
    db.main.run(ENDED % batch)
    taken, _ = take(db.main, "other")
    assert db.main.finish(batch) == 0
    assert take(db.main, "one") == (None, None)
    assert db.main.data(taken) == ["a"]


def test_run_that_ends_in_order_gives_its_range_back(db: Database) -> None:
    filled(db, "a")
    batch, worker = take(db.main, "one")
    assert db.main.one("select pgq.end_run('q', %s, 'one')", f"c.{worker}") == 1
    taken, _ = take(db.main, "other")
    assert taken not in (None, batch)


def test_two_that_ask_at_once_get_different_ranges(db: Database) -> None:
    filled(db, "ab")
    one, other = db.open(), db.open()
    one.begin()
    first, _ = take(one, "one")
    later = other.later(TAKE, "c", "other", "1 minute")
    assert wait_until_blocked(db.main.connection, other.pid) == [one.pid]
    one.commit()
    second = later.result(30)
    assert sorted([*db.main.data(first), *db.main.data(second)]) == ["a", "b"]


def test_look_of_an_idle_worker_writes_and_locks_nothing(db: Database) -> None:
    filled(db, "")
    db.main.run("update pgq.registration set sub_mode = 'shared'")
    db.main.begin()
    assert take(db.main, "one") == (None, None)
    assert db.main.one(WROTE_OR_LOCKED) is False


@pytest.mark.parametrize(("holder", "lease"), [(None, "1 minute"), ("one", None)])
def test_worker_without_subconsumer_and_token_or_lease_is_refused(
    db: Database, holder: str | None, lease: str | None
) -> None:
    filled(db, "a")
    with refused("PQ009"):
        db.main.all(TAKE, "c", holder, lease)


def test_worker_of_what_is_no_consumer_is_refused(db: Database) -> None:
    filled(db, "ab")
    batch, worker = take(db.main, "one")
    with refused("PQ020"):
        db.main.all(TAKE, f"c.{worker}", "other", "1 minute")
    with refused("PQ002"):
        db.main.all(TAKE, "nobody", "other", "1 minute")
    assert db.main.data(batch) == ["a"]
