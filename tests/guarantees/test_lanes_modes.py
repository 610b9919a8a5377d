"""Who may have lanes, who runs how, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.guarantees.lanes import KEYS, LANES, REGISTER, SET, TAKEN, Run, in_order, insert, runs
from tests.guarantees.ranges import PIN
from tests.guarantees.sessions import refused
from tests.guarantees.workers import Worker

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

pytestmark = pytest.mark.alone

MODE = "select pgq.set_consumer_mode('q', 'c', %s)"
NAMES = "select array_agg(co_name::text order by co_name) from pgq.consumer"


def left_of(db: Database, *numbers: int) -> None:
    """Insert events, and tick after those of each number."""
    for number in numbers:
        insert(db.main, number)
        db.main.tick()


def plain(db: Database) -> None:
    """Run the consumer as a plain one."""
    db.main.one("select died from pgq.begin_run('q', 'c', 'host:0:x')")
    assert len(db.main.drain()) == 20


def shared(db: Database) -> None:
    """Run the consumer as a shared one."""
    workers = [Worker(db.open(), name, f"host:{name}:x") for name in "12"]
    assert len(workers[0].drain()) == 20


def nothing(db: Database) -> None:
    """Finish the batch with PGQ's own calls, which choose no mode."""
    assert len(db.main.drain()) == 20


@pytest.mark.parametrize("before", [plain, shared, nothing])
def test_lanes_begin_where_the_consumer_was(db: Database, before: Any) -> None:
    db.queue()
    left_of(db, 1)
    before(db)
    left_of(db, 2)
    assert db.main.one(SET, 4, "extra1") == 1
    assert db.main.one(NAMES) == ["c", *(f"c.extra1-{number}-of-4" for number in range(1, 5))]
    found = Run(db.open(), "host:9:x").drain()
    assert sorted(found) == sorted((key, "002") for key in KEYS)


@pytest.mark.parametrize("mode", ["plain", "shared"])
def test_consumer_with_one_lane_goes_back(db: Database, mode: str | None) -> None:
    one, other = runs(db)
    left_of(db, 1)
    batch = one.take()
    assert db.main.one(SET, 1, "extra1") == 1
    left_of(db, 2)
    with refused("PQ021"):
        db.main.one(MODE, mode)
    found = one.events(batch)
    assert one.finish(batch) == 1
    with refused("PQ021"):
        db.main.one(MODE, mode)
    found += other.take_and_read()
    while db.main.one(LANES) > 1:
        found += other.take_and_read()
    left_of(db, 3)
    batch = one.take()
    with refused("PQ021"):
        db.main.one(MODE, mode)
    found += one.events(batch)
    assert one.finish(batch) == 1
    left_of(db, 4)
    assert db.main.one(MODE, mode) == 1
    assert db.main.one(LANES) == 0
    with refused("PQ020"):
        one.take()
    after = Worker(db.open(), "1", "host:w:x").drain() if mode == "shared" else db.main.drain()
    assert len(found) + len(after) == 80
    assert in_order(found)
    assert after == ["004"] * 20


def test_one_lane_goes_back_without_a_run_after_the_change(db: Database) -> None:
    (run,) = runs(db, 1)
    left_of(db, 1)
    run.drain()
    assert db.main.one(SET, 1, "extra1") == 1
    assert db.main.one(MODE, "plain") == 1
    assert db.main.one(LANES) == 0


def test_consumer_that_runs_gets_no_lanes(db: Database) -> None:
    db.queue()
    left_of(db, 1)
    lock = "select pg_advisory_lock(7366514, sub_id) from pgq.registration where sub_parent is null"
    running = db.open()
    running.one(lock)
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")
    running.one("select pg_advisory_unlock_all()::text")
    batch = db.main.next()
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")
    assert db.main.finish(batch) == 1
    assert db.main.one(SET, 4, "extra1") == 1


def test_pinned_and_parked_consumers_keep_what_they_have(db: Database) -> None:
    db.queue()
    left_of(db, 1)
    db.main.tick()
    assert db.main.one(PIN, 1, 2) == 1
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")
    batch = db.main.next()
    event = db.main.events(batch)[0]
    assert event.data == "001"
    call = "select pgq.event_park(%s, array[%s::bigint], array[%s::bigint], '{k}', '{1 s}', '{e}')"
    db.main.one(call, batch, event.id, event.txid)
    assert db.main.finish(batch) == 1
    with refused("PQ021"):
        db.main.one(SET, 4, "extra1")


def test_first_process_decides_the_lanes(db: Database) -> None:
    db.queue(consumers=())
    assert db.main.one(REGISTER, 4, "extra1") == "4 extra1"
    assert db.main.one(REGISTER, 8, "extra2") == "4 extra1"
    assert db.main.one(SET, 8, "extra2") == 1
    assert db.main.one(REGISTER, 4, "extra1") == "8 extra2"
    assert db.main.one(SET, 8, "extra2") == 0


def test_unregistered_consumer_takes_its_lanes_along(db: Database) -> None:
    one, _ = runs(db)
    left_of(db, 1)
    batch = one.take()
    assert db.main.one(SET, 3, "extra1") == 1
    assert db.main.one("select pgq.unregister_consumer('q', 'c')") == 8
    assert db.main.one(NAMES) is None
    assert db.main.one("select count(*) from pgq.position") == 0
    assert one.finish(batch) == 0
    with refused("PQ002"):
        one.take()


def test_dropped_queue_takes_the_lanes_along(db: Database) -> None:
    runs(db, 0)
    with refused("PQ008"):
        db.main.one("select pgq.drop_queue('q')")
    assert db.main.one("select pgq.drop_queue('q', true)") == 1
    assert db.main.one(NAMES) is None


def test_consumers_of_one_queue_have_lanes_of_their_own(db: Database) -> None:
    (run,) = runs(db, 1)
    assert db.main.one("select pgq.register_lanes('q', 'd', 7, 'type') is null") is False
    left_of(db, 1, 2)
    assert len(run.drain()) == 40
    found = 0
    while (batch := db.main.one(TAKEN, "d")) is not None:
        found += len(db.main.events(batch))
        db.main.finish(batch)
    assert found == 40
    assert db.main.one(LANES) == 11


def test_filter_holds_for_all_lanes_and_new_ones(db: Database) -> None:
    (run,) = runs(db, 1)
    call = "select pgq.set_consumer_filter('q', 'c', %s::jsonb)"
    assert db.main.one(call, Jsonb({"extra1": KEYS[:5]})) == 1
    left_of(db, 1)
    assert sorted(run.drain()) == sorted((key, "001") for key in KEYS[:5])
    assert db.main.one(SET, 3, "extra1") == 1
    left_of(db, 2)
    assert sorted(run.drain()) == sorted((key, "002") for key in KEYS[:5])
    with refused("PQ021"):
        other = Jsonb({"extra1": KEYS[:4]})
        run.session.one("select pgq.take_lane('q', 'c', 'h', i_filter => %s)", other)
