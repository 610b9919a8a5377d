"""G7: sequences that begin anew in a copy, as after logical replication; none goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

REPAIR = "select pgq.repair_queue('q')"
IDS = "select array_agg(ev_id) from pgq.event_1"
SHARED = {
    "queue_queue_id_seq": "select max(queue_id) from pgq.queue",
    "consumer_co_id_seq": "select max(co_id) from pgq.consumer",
    "registration_sub_id_seq": "select max(sub_id) from pgq.registration",
    "batch_id_seq": "select max(pos_batch) >> 20 from pgq.position",
}


def copied(db: Database, *sequences: str) -> None:
    """Deliver some events, then let these sequences begin anew."""
    db.queue(consumers=("c", "behind"))
    db.main.tick_after(*"abc")
    db.main.drain("c")
    for sequence in sequences:
        db.main.one("select setval(%s, 1, false)", f"pgq.{sequence}")


@pytest.mark.parametrize("sequence", ["event_1_tick_seq", "event_1_id_seq"])
def test_queue_whose_sequence_is_behind_is_repaired(db: Database, sequence: str) -> None:
    copied(db, sequence)
    for data in "de":
        db.main.insert(data)
    with refused("PQ012"):
        db.main.tick()
    assert db.main.one(REPAIR) == 5
    db.main.tick_after("f")
    assert sorted(db.main.drain("c")) == ["d", "e", "f"]
    assert sorted(db.main.drain("behind")) == ["a", "b", "c", "d", "e", "f"]
    assert len(db.main.one(IDS)) == 6
    assert db.main.insert("g") == 5 + 2 * (sequence == "event_1_tick_seq")


def test_batch_id_is_not_given_again_where_its_sequence_is_behind(db: Database) -> None:
    """A client that a pooler kept connected over a failover would finish another one's batch."""
    db.queue(consumers=("c",))
    ids = []
    for data in "ab":
        db.main.one("select setval('pgq.batch_id_seq', 1, false)")
        db.main.tick_after(data)
        ids.append(db.main.next("c"))
        db.main.finish(ids[-1])
    assert len(set(ids)) == 2
    assert {(id_ or 0) >> 20 for id_ in ids} == {1}


@pytest.mark.parametrize("sequence", SHARED)
def test_repair_moves_the_sequences_of_all_queues_up(db: Database, sequence: str) -> None:
    copied(db, sequence)
    db.main.one(REPAIR)
    used = db.main.one("select pg_sequence_last_value(%s)", f"pgq.{sequence}")  # null: none yet
    assert used == db.main.one(SHARED[sequence])


def test_repair_moves_no_sequence_back(db: Database) -> None:
    copied(db)
    used = [f"pgq.{sequence}" for sequence in (*SHARED, "event_1_tick_seq", "event_1_id_seq")]
    for sequence in used:
        db.main.one("select setval(%s, 1000)", sequence)
    db.main.one(REPAIR)
    assert {db.main.one(f"select last_value from {sequence}") for sequence in used} == {1000}


LOOKED = """
    create function pgq.seq_getval(i_seq_name text) returns bigint language plpgsql as $$
    declare found bigint := pgq.seq_getval_itself(i_seq_name); begin
    {}
    return found; end $$"""


def test_sequence_is_not_moved_back_beside_a_producer(db: Database) -> None:
    db.queue()
    admin = db.open()
    db.main.run("alter function pgq.seq_getval rename to seq_getval_itself")
    with db.held(admin, LOOKED) as gate:
        moving = admin.later("select pgq.seq_setval('pgq.event_1_id_seq', 10)")
        gate.wait_for_arrival()
        last = [db.main.insert("a") for _ in range(20)][-1]
        gate.open()
        assert moving.result(timeout=30) > 10
    assert db.main.insert("b") > last


FAR = "select pgq.seq_setval('pgq.event_1_id_seq', %s)"


def test_sequence_is_not_moved_back_by_a_move_that_looked_before(db: Database) -> None:
    db.queue()
    copier = db.open()
    db.main.run("alter function pgq.seq_getval rename to seq_getval_itself")
    with db.held(copier, LOOKED) as gate:
        moving = copier.later(FAR, 5_000_000)
        gate.wait_for_arrival()
        assert db.main.one(FAR, 9_000_000) == 9_000_000
        gate.open()
        assert moving.result(timeout=30) == 9_000_000


def test_two_sessions_move_a_sequence_far_in_turn(db: Database) -> None:
    db.queue()
    copier = db.open()
    db.main.begin()
    assert db.main.one(FAR, 9_000_000) == 9_000_000
    moving = copier.later(FAR, 20_000_000)
    wait_until_blocked(db.main.connection, copier.pid)
    other = "select pgq.seq_setval('pgq.event_1_tick_seq', 5000000)"
    assert db.open().one(other) == 5_000_000  # another sequence does not wait
    db.main.commit()
    assert moving.result(timeout=30) == 20_000_000
