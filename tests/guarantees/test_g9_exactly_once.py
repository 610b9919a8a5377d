"""G9: processed and finished in one transaction, each event's effect happens once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gates import shut_gate, wait_until_blocked
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.guarantees.sessions import Database, Session
    from tests.support.processes import PythonProcess

EFFECTS = str(Path(__file__).with_name("effects.py"))
# At COMMIT, when nothing is left to do but that: whoever has an effect waits here.
WAIT_AT_COMMIT = """
    create function wait_at_commit() returns trigger language plpgsql as $$
    begin
        perform pg_advisory_xact_lock_shared({});
        return null;
    end $$;
    create constraint trigger at_commit after insert on effect deferrable initially deferred
        for each row when (new.data = 'gate') execute function wait_at_commit()
"""

if TYPE_CHECKING:
    Spawn = Callable[..., PythonProcess]


@pytest.fixture
def effects(db: Database) -> Database:
    """A queue and a table of effects."""
    db.queue()
    db.main.run("create table effect (id bigint, data text)")
    return db


def _all_effects(db: Database) -> list[str]:
    return [data for (data,) in db.main.all("select data from effect order by id")]


def test_killed_between_processing_and_finish(effects: Database, spawn: Spawn) -> None:
    for data in ("a", "gate", "never reached before the kill"):
        effects.main.insert(data)
    effects.main.tick()
    with shut_gate(effects.open().connection) as gate:
        for _ in range(2):
            process = spawn(EFFECTS, effects.dsn, str(gate.key))
            backend = gate.wait_for_arrival()
            process.kill()
            effects.main.one("select pg_terminate_backend(%s)", backend)
            eventually(lambda: not gate.waiting())
            assert _all_effects(effects) == []
    spawn(EFFECTS, effects.dsn)
    eventually(lambda: _all_effects(effects))
    _quiesce(effects, last="b")
    assert _all_effects(effects) == ["a", "gate", "never reached before the kill", "b"]


def test_killed_while_the_commit_is_under_way(effects: Database, spawn: Spawn) -> None:
    with shut_gate(effects.open().connection) as gate:
        effects.main.run(WAIT_AT_COMMIT.format(gate.key))
        for data in ("a", "gate"):
            effects.main.insert(data)
        effects.main.tick()
        process = spawn(EFFECTS, effects.dsn)
        gate.wait_for_arrival()
        process.kill()  # it will never know that its transaction commits
        successor = spawn(EFFECTS, effects.dsn)
        assert _all_effects(effects) == []
        gate.open()
        eventually(lambda: _all_effects(effects))
        assert successor.popen.poll() is None or "runs already" in successor.output()
    if successor.popen.poll() is not None:
        spawn(EFFECTS, effects.dsn)
    _quiesce(effects, last="b")
    assert _all_effects(effects) == ["a", "gate", "b"]


def _quiesce(db: Database, last: str) -> None:
    """Send one more event and wait until it has its effect."""
    db.main.tick_after(last)
    eventually(lambda: last in _all_effects(db))


def test_two_transactional_sessions_share_no_event(db: Database) -> None:
    db.queue()
    for number in range(10):
        db.main.tick_after(str(number))
    one, other = db.open(), db.open()
    taken: list[str] = []
    for _ in range(5):
        one.begin()
        other.begin()
        taken += _process(one)
        rival = other.later("select pgq.next_batch('q', 'c')")
        wait_until_blocked(db.main.connection, other.pid)
        one.commit()
        taken += _process_if_given(other, rival.result(timeout=30))
    taken += db.main.drain()
    assert sorted(taken) == sorted(str(number) for number in range(10))


def _process(session: Session) -> list[str]:
    batch = session.next()
    data = session.data(batch)
    assert session.finish(batch) == 1
    return data


def _process_if_given(session: Session, batch: int | None) -> list[str]:
    """Process what the waiting session got."""
    if batch is None:
        session.rollback()
        return []
    data = session.data(batch)
    assert session.finish(batch) == 1
    session.commit()
    return data


def test_rolled_back_processing_leaves_the_batch_to_the_next(effects: Database) -> None:
    effects.main.tick_after("a")
    consumer = effects.open()
    for end in ("rollback", "commit"):
        consumer.begin()
        batch = consumer.next()
        consumer.run(f"insert into effect select ev_id, ev_data from pgq.get_batch_events({batch})")
        assert consumer.finish(batch) == 1
        consumer.run(end)
    assert _all_effects(effects) == ["a"]
    assert effects.main.deliver() == []
