"""SIGKILL of the client or the server in a seek: the consumer was moved whole, or not at all."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from pgqpy.install import install
from tests.guarantees.everything import INSERT, LOCK, TAKE, handle
from tests.guarantees.seek import MOVE_RETRIES
from tests.guarantees.sessions import Database, Session
from tests.support.crash import kill_server
from tests.support.gates import Gate, shut_gate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer
    from tests.support.processes import PythonProcess

KINDS = ("plain", "lanes", "shared")
BEFORE, AFTER = "before the move", "after the move"
SEEK = "select tick_id from pgq.seek_consumer('q', %s, 1)"
GONE = "select count(*) = 0 from pg_stat_activity where pid = %s"
CLIENT = """
import sys, pgqpy
with pgqpy.connect(sys.argv[1]) as client:
    if sys.argv[3] == "transaction":
        client.connection.execute("begin")
    client.seek_consumer("q", sys.argv[2], 1)
    client.connection.execute("select pg_advisory_xact_lock_shared({})")
    client.connection.execute("commit")
"""
HOLD = """
    alter function pgq.register_consumer_at(text, text, bigint) rename to move_itself;
    create function pgq.register_consumer_at(x_queue text, x_consumer text, x_tick bigint)
    returns int language plpgsql as $$ declare v_done int; begin
    {}; v_done := pgq.move_itself(x_queue, x_consumer, x_tick); {};
    return v_done; end $$"""
RELEASE = """
    drop function pgq.register_consumer_at(text, text, bigint);
    alter function pgq.move_itself(text, text, bigint) rename to register_consumer_at"""


def told(db: Database) -> dict[str, int]:
    """Let each consumer retry `a`, and have `b` open, and `c` before it; return the batches."""
    db.queue(consumers=KINDS)
    db.main.one("select pgq.set_lanes('q', 'lanes', 2, 'extra1')")
    db.main.one("select pgq.register_subconsumer('q', 'shared', '1')")
    db.main.one(LOCK)
    add(db.main, "a")
    for kind in KINDS:
        assert handle(db.main, kind, retries={"a": "1 hour"}) == ["a"]
    add(db.main, "b")
    batches = {kind: db.main.one(TAKE[kind]) for kind in KINDS}
    add(db.main, "c")
    return batches


def add(session: Session, name: str) -> None:
    """Insert an event, and tick."""
    session.one(INSERT, name, name)
    session.tick()


def hold(session: Session, gate: Gate, point: str) -> None:
    """Let a seek wait at the gate."""
    wait = gate.wait_sql.replace("select", "perform")
    parts = (wait, "null") if point == BEFORE else ("null", wait)
    session.run(HOLD.format(*parts))


def expect(session: Session, kind: str, batch: int, *, moved: bool) -> None:
    """Take all that comes: what is behind the place, or what is left and what was retried."""
    assert session.finish(batch) == (not moved)
    session.run("update pgq.retry_queue set ev_retry_after = now()")
    session.one(MOVE_RETRIES)
    session.tick()
    found = handle(session, kind, retries={})
    assert Counter(found) == Counter("abc" if moved else "ac"), kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["alone", "transaction"])
def test_client_that_is_killed_in_a_seek_moves_the_consumer_whole_or_not(
    db: Database, spawn: Callable[..., PythonProcess], kind: str, how: str
) -> None:
    batches = told(db)
    with shut_gate(db.open().connection) as gate, shut_gate(db.open().connection) as end:
        hold(db.main, gate, AFTER)
        client = spawn("-c", CLIENT.format(end.key), db.dsn, kind, how)
        backend = gate.wait_for_arrival()
        client.wait_until_asleep()  # else the server may not have all of its pipeline
        client.kill()
        gate.open()
        eventually(lambda: db.main.one(GONE, backend))
    db.main.run(RELEASE)
    expect(db.main, kind, batches[kind], moved=how == "alone")


def restarted(server: EmbeddedServer) -> Database:
    """Kill the server, and start it again: a database on it, with the holder's lock."""
    kill_server(server)
    server.start()
    db = Database(server.dsn())
    db.main.one(LOCK)
    return db


@pytest.mark.parametrize("point", [BEFORE, AFTER])
def test_server_that_is_killed_in_a_seek_has_moved_nobody(
    own_server: EmbeddedServer, point: str
) -> None:
    with closing(Database(own_server.dsn())) as db:
        install(db.main.connection)
        batches = told(db)
        with shut_gate(db.open().connection) as gate:
            hold(db.main, gate, point)
            calls: list[Any] = [db.open().later(SEEK, kind) for kind in KINDS]
            eventually(lambda: len(gate.waiting()) == len(calls))
            again = restarted(own_server)
            gate.open = lambda: None  # type: ignore[method-assign]  # its session is gone
        with closing(again):
            again.main.run(RELEASE)
            for kind in KINDS:
                expect(again.main, kind, batches[kind], moved=False)


def test_server_that_is_killed_after_a_seek_has_moved_all(own_server: EmbeddedServer) -> None:
    with closing(Database(own_server.dsn())) as db:
        install(db.main.connection)
        batches = told(db)
        for kind in KINDS:
            assert db.main.one(SEEK, kind) == 1
        with closing(restarted(own_server)) as again:
            for kind in KINDS:
                expect(again.main, kind, batches[kind], moved=True)
