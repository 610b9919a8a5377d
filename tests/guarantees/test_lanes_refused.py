"""Calls that do not fit a consumer with lanes, and who may call the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.guarantees.lanes import LANES, REGISTER, SET, TAKEN, insert, runs
from tests.guarantees.sessions import RR, SERIALIZABLE, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

LANE = "c.extra1-1-of-4"
REFUSED: list[tuple[str, str]] = [
    ("PQ002", "select pgq.set_lanes('q', 'nobody', 4, 'extra1')"),
    ("PQ002", "select pgq.set_lanes('none', 'c', 4, 'extra1')"),
    ("PQ001", "select pgq.register_lanes('none', 'c', 4, 'extra1')"),
    ("PQ002", "select pgq.take_lane('q', 'nobody', 'host:1:x')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 0, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 1025, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', null, 'extra1')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 4, 'data')"),
    ("PQ009", "select pgq.set_lanes('q', 'c', 4, null)"),
    ("PQ009", "select pgq.take_lane('q', 'c', '')"),
    ("PQ009", "select pgq.take_lane('q', 'c', null)"),
    ("PQ009", "select pgq.take_lane('q', 'c', 'host:1:x', i_wanted => 0)"),
    ("PQ009", "select pgq.take_lane('q', 'c', 'host:1:x', i_filter => '[]')"),
    ("PQ021", """select pgq.take_lane('q', 'c', 'host:1:x', i_filter => '{"types": ["a"]}')"""),
    ("PQ020", "select pgq.take_lane('q', 'c', 'host:1:x', i_key => 'extra2')"),
    ("PQ020", f"select pgq.take_lane('q', '{LANE}', 'host:1:x')"),
    ("PQ020", f"select pgq.set_lanes('q', '{LANE}', 2, 'extra1')"),
    ("PQ020", f"select pgq.register_lanes('q', '{LANE}', 2, 'extra1')"),
    ("PQ020", f"select pgq.set_consumer_mode('q', '{LANE}', 'plain')"),
    ("PQ020", f"select pgq.set_consumer_filter('q', '{LANE}', null)"),
    ("PQ020", f"select pgq.unregister_consumer('q', '{LANE}')"),
    ("PQ020", f"select pgq.register_consumer_at('q', '{LANE}', 1)"),
    ("PQ020", f"select pgq.next_batch('q', '{LANE}')"),
    ("PQ020", f"select pgq.begin_run('q', '{LANE}', 'host:1:x')"),
    ("PQ020", f"select pgq.advance_subscription('q', '{LANE}', 1, 2)"),
    ("PQ020", f"select pgq.pin_range('q', '{LANE}', 1, 2)"),
    ("PQ020", "select pgq.next_batch('q', 'c')"),
    ("PQ020", "select pgq.begin_run('q', 'c', 'host:1:x')"),
    ("PQ020", "select pgq.advance_subscription('q', 'c', 1, 2)"),
    ("PQ020", "select pgq.register_subconsumer('q', 'c', '1')"),
    ("PQ020", "select pgq.receive('q', 'c', 1, '1 minute')"),
    ("PQ020", "select pgq.take_part('q', 'c', null, 'host:1:x', '1 minute')"),
    ("PQ021", "select pgq.set_consumer_mode('q', 'c', 'plain')"),
]


def test_calls_that_do_not_fit_are_refused(db: Database) -> None:
    runs(db, 0)
    insert(db.main, 1)
    db.main.tick()
    found = []
    for _, call in REFUSED:
        with pytest.raises(psycopg.Error) as failed:
            db.main.run(call)
        found.append((failed.value.sqlstate, call))
    assert found == REFUSED


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_lanes_change_and_are_taken_in_read_committed_only(db: Database, isolation: str) -> None:
    runs(db, 0)
    for call in (
        "set_lanes('q', 'c', 3, 'extra1')",
        "take_lane('q', 'c', 'host:1:x')",
        "set_consumer_mode('q', 'c', 'plain')",
        "set_consumer_filter('q', 'c', null)",
    ):
        db.main.begin(isolation)
        with refused("PQ013"):
            db.main.run(f"select pgq.{call}")
        db.main.rollback()


def test_lane_is_no_worker(db: Database) -> None:
    runs(db, 0)
    call = "select pgq.unregister_subconsumer('q', 'c', 'extra1-1-of-4', 1)"
    assert db.main.one(call) == 0
    assert db.main.one(LANES) == 4


def test_lane_does_not_take_the_name_of_another_consumer(db: Database) -> None:
    db.queue(consumers=("c", LANE))
    with refused("PQ009"):
        db.main.one(SET, 4, "extra1")
    assert db.main.one(LANES) == 0
    long = "x" * 250
    db.main.one("select pgq.register_consumer('q', %s)", long)
    with refused("PQ009"):
        db.main.one("select pgq.set_lanes('q', %s, 4, 'extra1')", long)


def test_plain_and_shared_consumers_are_taken_by_no_lane(db: Database) -> None:
    db.queue(consumers=("c", "p", "s"))
    for name, mode in [("p", "plain"), ("s", "shared")]:
        db.main.one("select pgq.set_consumer_mode('q', %s, %s)", name, mode)
        with refused("PQ020"):
            db.main.one("select pgq.register_lanes('q', %s, 4, 'extra1')", name)
    for name in ("c", "p", "s"):
        with refused("PQ020"):
            db.main.one(TAKEN, name)


def test_only_readers_use_lanes(db: Database) -> None:
    runs(db, 0)
    insert(db.main, 1)
    db.main.tick()
    calls = [(SET, (4, "extra1")), (REGISTER, (4, "extra1")), (TAKEN, ("c",))]
    for role, allowed in [("pgq_writer", False), ("pgq_reader", True)]:
        session = db.open()
        session.run(f"set role {role}")
        for call, parameters in calls:
            if allowed:
                assert session.one(call, *parameters) is not None
            else:
                with refused("42501"):
                    session.one(call, *parameters)
    batch = db.main.one("select pos_batch from pgq.current_position where pos_batch is not null")
    reader = db.open()
    reader.run("set role pgq_reader")
    assert reader.events(batch)
    assert reader.finish(batch) == 1
    for call in ("open_lane(p, 'h', null, null, null, null, null, null, null)", "end_lanes(1)"):
        with refused("42501"):
            reader.one(f"select pgq.{call} from pgq.current_position p")
