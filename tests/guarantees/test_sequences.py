"""Sequences of a queue: they never go back, beside producers or after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pgqpy.install import install
from tests.guarantees.mutations import Mutation, expect_failure
from tests.guarantees.sessions import Database
from tests.support.crash import kill_server
from tests.support.servers import FAST, other_programs, private_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgqpy.testing import EmbeddedServer

MINIMAL = {**FAST, "wal_level": "minimal", "max_wal_senders": 0}

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


@pytest.fixture
def minimal() -> Iterator[EmbeddedServer]:
    """A server whose WAL is for crashes only."""
    with private_server(MINIMAL, other_programs()) as server:
        yield server


def test_crash_of_a_server_with_a_minimal_wal_repeats_no_number(minimal: EmbeddedServer) -> None:
    db = Database(minimal.dsn())
    install(db.main.connection)
    with db.main.connection.transaction():  # a migration, which inserts events too
        db.queue()
        db.main.insert("a")
    db.main.tick()
    last = db.main.insert("b")
    db.close()
    kill_server(minimal)
    minimal.start()
    after = Database(minimal.dsn())
    assert after.main.insert("c") > last
    after.main.tick()
    assert after.main.drain() == ["a", "b", "c"]
    after.close()


def test_mutation_is_noticed(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = Mutation(
        "seq_setval", "v_last + c_most", "v_last", test_sequence_is_not_moved_back_beside_a_producer
    )
    expect_failure(db, mutation, monkeypatch)
