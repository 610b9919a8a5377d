"""Replay beside a session that moves the consumer: one waits for the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.replaying import begin, replay, replay_later
from tests.guarantees.seek import RETRIES, put_back, ticked
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MOVE = "select pgq.register_consumer_at('q', 'c', %s)"
SEEK = "select tick_id from pgq.seek_consumer('q', 'c', %s)"


def test_seek_back_waits_for_a_replay_and_takes_its_events_once(db: Database) -> None:
    db.queue()
    start, end = ticked(db.main, "ab")
    db.main.drain()
    begin(db.main)
    session, seeker = db.open(), db.open()
    session.begin()
    assert replay(session, [start, end]) == 2
    call = seeker.later(SEEK, start)
    wait_until_blocked(db.main.connection, seeker.pid)
    session.commit()
    assert call.result(timeout=30) == start
    put_back(db.main)
    assert db.main.drain() == ["a", "b"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_replay_waits_for_a_move_back_and_leaves_out_what_comes_again(
    db: Database, end: str
) -> None:
    db.queue()
    ticks = ticked(db.main, "ab")
    db.main.drain()
    begin(db.main)
    session, mover = db.open(), db.open()
    mover.begin()
    mover.one(MOVE, ticks[0])
    call = replay_later(session, ticks)
    wait_until_blocked(db.main.connection, session.pid)
    mover.run(end)
    assert call.result(timeout=30) == (0 if end == "commit" else 2)
    put_back(db.main)
    assert db.main.drain() == ["a", "b"]


def test_move_back_waits_for_a_replay_whose_events_stay_as_retried_ones(db: Database) -> None:
    db.queue()
    ticks = ticked(db.main, "ab")
    db.main.drain()
    begin(db.main)
    session, mover = db.open(), db.open()
    session.begin()
    assert replay(session, ticks) == 2
    call = mover.later(MOVE, ticks[0])
    assert wait_until_blocked(db.main.connection, mover.pid) == [session.pid]
    session.commit()
    assert call.result(timeout=30) == 0
    assert db.main.drain() == ["a", "b"]
    assert db.main.one(RETRIES) == ["a", "b"]
