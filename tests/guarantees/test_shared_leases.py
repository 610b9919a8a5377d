"""Leases of workers: what calls in the middle of one keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import RR, refused
from tests.guarantees.workers import Worker, workers

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


BEGIN, WIDEN = "begin_run('q', 'c.1', 'next')", "widen_run('q', 'c.1', 'next')"


def add(db: Database, events: str) -> None:
    """Insert events, and tick after them."""
    for event in events:
        db.main.insert(event)
    db.main.tick()


def run_again(worker: Worker, call: str) -> None:
    """Let the worker's run tell something: after two crashes, so that it may widen."""
    for name in ("one run", "another", "next"):
        worker.session.one("select pgq.begin_run('q', 'c.1', %s)", name)
    worker.session.one(f"select pgq.{call}")


@pytest.mark.parametrize("call", [BEGIN, WIDEN])
def test_lease_lasts_whatever_its_run_tells(db: Database, call: str) -> None:
    one, other = workers(db, "a")
    batch = one.take(lease="1 minute")
    run_again(one, call)
    assert other.take() is None
    assert one.finish(batch) == 1


def test_lease_lasts_when_a_part_is_finished(db: Database) -> None:
    one, other = workers(db, "")
    add(db, "ab")
    batch = one.take(lease="1 minute")
    first, _ = one.session.events(batch)
    assert one.session.one("select pgq.finish_part(%s, %s)", batch, first.id) == 1
    assert other.take() is None
    assert one.data(batch) == ["b"]


@pytest.mark.parametrize("lease", ["25 hours", "infinity"])
def test_lease_of_more_than_a_day_is_refused(db: Database, lease: str) -> None:
    one, other = workers(db, "a")
    batch = one.take(lease="1 day")
    assert batch is not None
    for call in (
        "take_part('q', 'c', null, 'h', %s)",
        f"touch_batch({batch}, %s)",
    ):
        with refused("PQ009", "22007"):  # PostgreSQL 15 has no infinite interval
            other.session.one(f"select pgq.{call}", lease)
    db.main.one("select pgq.register_lanes('q', 'lanes', 1, 'type')")
    add(db, "b")
    for call in ("take_lane('q', 'lanes', 'h', %s)", "take_parked_lane('q', 'lanes', 'h', 1, %s)"):
        with refused("PQ009", "22007"):
            db.main.one(f"select pgq.{call}", lease)


def test_part_keeps_an_extension_that_its_snapshot_does_not_see(db: Database) -> None:
    one, other = workers(db, "")
    add(db, "ab")
    batch = one.take(lease="1 minute")
    first, _ = one.session.events(batch)
    one.session.begin(RR)
    assert other.session.one("select pgq.touch_batch(%s, '1 hour')", batch) == 1
    with refused("40001"):
        one.session.one("select pgq.finish_part(%s, %s)", batch, first.id)
    one.session.rollback()
    assert one.data(batch) == ["a", "b"]


TAKE = "select batch_id, worker from pgq.take_part('q', %s, null, %s, %s::interval)"
LEFT = "select extract(epoch from max(pos_until) - now()) from pgq.position where pos_batch = %s"
WROTE_OR_LOCKED = "select pg_current_xact_id_if_assigned() is not null"


def take(session: Session, holder: str, lease: str = "1 minute") -> tuple[Any, ...]:
    """Take a range: its batch, and the subconsumer that has it."""
    ((batch, worker),) = session.all(TAKE, "c", holder, lease)
    return batch, worker


def in_ranges(db: Database, ranges: str) -> None:
    """Make the queue with a consumer, and one event in each range."""
    db.queue()
    db.main.tick_after(*ranges)


def test_worker_gets_a_subconsumer_that_is_free(db: Database) -> None:
    in_ranges(db, "abc")
    (one, first), (other, second) = take(db.main, "one"), take(db.main, "other")
    assert (first, second) == ("lease-1", "lease-2")
    assert [db.main.data(one), db.main.data(other)] == [["a"], ["b"]]
    assert db.main.finish(one) == 1
    third, again = take(db.main, "third")
    assert (db.main.data(third), again) == (["c"], "lease-1")


def test_range_of_a_run_is_found_by_its_token_and_its_lease_extended(db: Database) -> None:
    in_ranges(db, "ab")
    batch, worker = take(db.main, "one")
    assert take(db.main, "one", "1 hour") == (batch, worker)
    assert db.main.one(LEFT, batch) > 60
    assert take(db.main, "one") == (batch, worker)
    assert db.main.one(LEFT, batch) > 60, "a lease is never cut short"


def test_look_of_an_idle_worker_writes_and_locks_nothing(db: Database) -> None:
    in_ranges(db, "")
    db.main.run("update pgq.registration set sub_mode = 'shared'")
    db.main.begin()
    assert take(db.main, "one") == (None, None)
    assert db.main.one(WROTE_OR_LOCKED) is False


@pytest.mark.parametrize(("holder", "lease"), [(None, "1 minute"), ("one", None)])
def test_worker_without_subconsumer_and_token_or_lease_is_refused(
    db: Database, holder: str | None, lease: str | None
) -> None:
    in_ranges(db, "a")
    with refused("PQ009"):
        db.main.all(TAKE, "c", holder, lease)


def test_worker_of_what_is_no_consumer_is_refused(db: Database) -> None:
    in_ranges(db, "ab")
    batch, worker = take(db.main, "one")
    with refused("PQ020"):
        db.main.all(TAKE, f"c.{worker}", "other", "1 minute")
    with refused("PQ002"):
        db.main.all(TAKE, "nobody", "other", "1 minute")
    assert db.main.data(batch) == ["a"]
