"""Sequences of a queue: they never go back, whoever moves them beside producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.mutations import Mutation, expect_failure

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

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


def test_mutation_is_noticed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = Mutation(
        "seq_setval", "v_last + c_most", "v_last", test_sequence_is_not_moved_back_beside_a_producer
    )
    expect_failure(db, mutation, monkeypatch)
