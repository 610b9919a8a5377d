"""Sequences of a queue: they never go back beside producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.sessions import Database
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    pass

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
