"""Takeover: the dead lose their range under a new batch id, and are late without effect."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgqpy.install import install
from tests.guarantees.sessions import RR, Database, refused
from tests.guarantees.workers import AWAY, ENDED, STEPPED_BACK, Worker, workers
from tests.support.crash import ask, kill_backend, kill_server
from tests.support.gates import Gate, wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgqpy.testing import EmbeddedServer

HOLD = """
    create function hold() returns trigger language plpgsql as $$
    begin {}; return null; end $$;
    create trigger hold after insert on pgq.position
        for each row when ({}) execute function hold()
"""


def kill_one_backend(_server: EmbeddedServer, pid: int) -> None:
    """Kill a backend; the server then crashes and restarts by itself."""
    kill_backend(pid)


def kill_all(server: EmbeddedServer, _pid: int) -> None:
    """Kill the whole server, and start it again."""
    kill_server(server)
    server.start()


def test_range_of_a_dead_worker_goes_on_with_what_is_open_of_it(db: Database) -> None:
    one, other = workers(db, "")
    ids = [db.main.insert(data) for data in "abcd"]
    db.main.tick()
    batch = one.take()
    call = "select pgq.finish_part(%s, %s, array[%s])"
    assert db.main.one(call, batch, ids[0], ids[2]) == 1
    taken = other.take()
    assert taken != batch
    assert other.data(taken) == ["b", "d"]
    assert other.finish(taken) == 1
    assert one.take() is None


def test_late_worker_changes_nothing(db: Database) -> None:
    one, other = workers(db, "a")
    batch = one.take()
    event = one.session.events(batch)[0]
    taken = other.take()
    assert one.finish(batch) == 0
    assert one.session.one("select pgq.finish_part(%s, %s)", batch, event.id) == 0
    assert one.session.one("select pgq.touch_batch(%s)", batch) == 0
    with refused("PQ003"):
        one.session.one("select pgq.event_retry(%s, %s, 0)", batch, event.id)
    with refused("PQ003"):
        one.data(batch)
    assert other.data(taken) == ["a"]


def test_late_worker_with_an_old_snapshot_changes_nothing(db: Database) -> None:
    one, other = workers(db, "a")
    batch = one.take()
    one.session.begin(RR)
    taken = other.take()
    with refused("40001"):
        one.finish(batch)
    one.session.rollback()
    assert other.data(taken) == ["a"]


def test_range_that_another_session_locks_does_not_hide_the_next_dead_one(db: Database) -> None:
    one, other, third = workers(db, "ab", 3)
    batches = [one.lock().take(), other.lock().take()]
    for worker in (one, other):
        worker.session.one("select pg_advisory_unlock_all()::text")
    one.session.begin()
    assert one.finish(batches[0]) == 1
    third.session.run("set lock_timeout = '1s'")
    assert third.data(third.take()) == ["b"]
    assert other.finish(batches[1]) == 0
    one.session.rollback()
    assert third.drain() == ["b", "a"]


def test_released_lock_can_be_taken_again(db: Database) -> None:
    one, other = workers(db, "a")
    one.take()
    other.session.begin()
    assert other.take() is not None
    assert db.main.one("select count(*) from pg_locks where locktype = 'advisory'") == 0


@pytest.mark.parametrize(
    ("tokens", "lock", "lease", "gone", "dead", "taken"),
    [
        (True, False, None, None, None, True),
        (True, True, None, None, "1 minute", False),
        (True, True, None, AWAY, None, False),
        (True, True, None, AWAY, "1 minute", True),
        (True, False, "1 minute", AWAY, "1 minute", False),
        (True, True, "1 minute", ENDED, None, True),
        (True, True, None, STEPPED_BACK, None, False),
        (True, True, None, STEPPED_BACK, "1 minute", True),
        (True, True, "1 minute", STEPPED_BACK, None, True),
        (False, False, None, AWAY, None, False),
        (False, False, None, None, "1 minute", False),
        (False, False, None, AWAY, "1 minute", True),
    ],
)
def test_holder_is_dead_without_lock_lease_or_sign_of_life(
    db: Database,
    *,
    tokens: bool,
    lock: bool,
    lease: str | None,
    gone: str | None,
    dead: str | None,
    taken: bool,
) -> None:
    one, other = workers(db, "a", tokens=tokens)
    if lock:
        one.lock()
    batch = one.take(lease)
    if gone is not None:
        db.main.connection.execute(gone.encode(), [batch])
    assert (other.take(dead=dead) is not None) == taken
    assert one.finish(batch) == (0 if taken else 1)


@pytest.mark.parametrize(
    ("gone", "lease"),
    [(AWAY, None), (ENDED, "1 minute"), (STEPPED_BACK, None), (STEPPED_BACK, "1 minute")],
)
def test_sign_of_life_keeps_a_range(db: Database, gone: str, lease: str | None) -> None:
    one, other = workers(db, "ab")
    batch = one.lock().take(lease)
    position = db.main.one("select pos_no from pgq.position where pos_batch = %s", batch)
    event = one.session.events(batch)[0]
    db.main.connection.execute(gone.encode(), [batch])
    assert db.main.one("select pgq.touch_batch(%s, %s)", batch, lease) == 1
    assert other.data(other.take(dead="1 minute")) == ["b"]
    until = "select max(pos_until) < now() + interval '2 minutes' from pgq.position"
    assert db.main.one(until) is (None if lease is None else True)
    part = "select pgq.finish_part(%s, %s, null, %s)"
    assert one.session.one(part, batch, event.id, position) == 1


def test_range_of_a_subconsumer_goes_to_its_next_run_under_a_new_id(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    batch = one.lock().take()
    assert one.take() == batch
    again = Worker(db.open(), "1", "host:2:x")
    with refused("PQ021"):
        again.take()
    one.session.connection.execute("select pg_advisory_unlock_all()")
    taken = again.take()
    assert taken != batch
    assert one.finish(batch) == 0
    assert again.data(taken) == ["a"]
    assert again.finish(taken) == 1


def test_range_that_was_finished_meanwhile_is_not_resumed(db: Database) -> None:
    (one,) = workers(db, "a", 1)
    batch = one.take()
    one.session.begin()
    assert one.finish(batch) == 1
    again = db.open()
    resumed = again.later("select to_jsonb(t) from pgq.take_part('q', 'c', '1', 'host:1:x') t")
    wait_until_blocked(db.main.connection, again.pid)
    one.session.commit()
    assert set(resumed.result(timeout=30).values()) == {None}


def test_released_range_is_taken_at_once_and_counts_as_no_crash(db: Database) -> None:
    one, other = workers(db, "a")
    careful = "select part_size from pgq.take_part('q', 'c', %s, %s)"
    one.lock().take()
    assert one.session.one("select pgq.end_run('q', 'c.1', 'host:1:x')") == 1
    assert other.session.one(careful, "2", "host:2:x") is None
    assert one.session.one(careful, "1", "host:1:x") == 1000, "it held no lock, and did not end"


@pytest.mark.parametrize(
    ("row", "crash"),
    [("new.pos_batch is null", kill_one_backend), ("new.pos_batch is not null", kill_all)],
)
def test_takeover_that_a_crash_of_the_server_cuts_off_has_not_happened(
    own_server: EmbeddedServer, row: str, crash: Callable[[EmbeddedServer, int], None]
) -> None:
    """It crashes when the dead worker has lost the range, or when the other one has it."""
    with closing(Database(own_server.dsn())) as db:
        install(db.main.connection)
        one, other = workers(db, "ab")
        batch = one.take()
        gate = Gate(db.open().connection, 1)
        db.main.run(HOLD.format(gate.wait_sql.replace("select", "perform"), row))
        taking = other.take_later()
        crash(own_server, gate.wait_for_arrival())
        for session in (taking.result, lambda: eventually(lambda: db.main.one("select false"))):
            with pytest.raises(psycopg.OperationalError):
                session()
    assert ask(own_server.dsn(), "select 1")
    with closing(Database(own_server.dsn())) as db:
        assert db.main.data(batch) == ["a"]
        again = Worker(db.open(), "2", "host:2:y")
        assert again.drain() == ["a", "b"]
        assert db.main.finish(batch) == 0
