"""Replay: archived events come again to one consumer, behind its backlog, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.cancelling import cancel, skip
from tests.guarantees.coop import subconsumers
from tests.guarantees.replaying import INSERT, begin, call_of, replay, replay_later
from tests.guarantees.seek import RETRIES, fail, put_back, ticked
from tests.guarantees.sessions import refused
from tests.guarantees.stalling import REATTACH, detach, stall
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


FILTER = """select pgq.set_consumer_filter('q', 'c', '{"types": ["x*"], "extra1": ["eu"]}')"""
TYPED = "select pgq.insert_event('q', %s, %s, %s, null, null, null)"


def test_events_come_again_to_one_consumer_behind_its_backlog(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    start, a, _ = ticked(db.main, "ab", "c")
    ids = db.main.all("select ev_id, ev_time, ev_type from pgq.event_1 order by 1 limit 2")
    assert (db.main.drain(), db.main.drain("d")) == (["a", "b", "c"], ["a", "b", "c"])
    ticked(db.main, "d")
    begin(db.main)
    assert replay(db.main, [start, a]) == 2
    db.main.insert("e")
    put_back(db.main)
    db.main.tick_after("f")
    batches = list(db.main.batches())
    assert [sorted(batch) for batch in batches] == [["d"], ["a", "b", "e"], ["f"]]
    assert db.main.drain("d") == ["d", "e", "f"]
    again = "select ev_id, ev_time, ev_type from pgq.event_1 where ev_owner is not null order by 1"
    assert db.main.all(again) == ids, "ids, times and types are the same"
    assert db.main.one("select count(*) from pgq.event_1 where ev_retry is not null") == 0


def test_place_moves_with_the_events(db: Database) -> None:
    db.queue()
    start, a, b = ticked(db.main, "a", "b")
    db.main.drain()
    begin(db.main)
    killed = db.open()
    killed.begin()
    assert replay(killed, [start, a]) == 1
    killed.rollback()
    assert begin(db.main)[:3] == (0, 0, 0)
    assert replay(db.main, [start, a]) == 1
    assert begin(db.main)[:3] == (a, 1, 1)
    assert replay(db.main, [start, a]) is None, "it was done"
    assert replay(db.main, [a, b], (a, 1)) == 1
    assert begin(db.main)[:3] == (b, 1, 2)
    put_back(db.main)
    assert db.main.drain() == ["a", "b"]


def test_second_of_two_sessions_inserts_nothing(db: Database) -> None:
    db.queue()
    start, a = ticked(db.main, "a")
    db.main.drain()
    begin(db.main)
    first, second = db.open(), db.open()
    first.begin()
    assert replay(first, [start, a]) == 1
    call = replay_later(second, [start, a])
    wait_until_blocked(db.main.connection, second.pid)
    first.commit()
    assert call.result(timeout=30) is None
    assert db.main.one(RETRIES) == ["a"]


def test_replay_with_the_same_words_goes_on_and_is_done_once(db: Database) -> None:
    db.queue()
    first = begin(db.main, "7d", since="2026-11-01", until="2026-11-08")
    assert begin(db.main, "7d", since="2026-11-02", until="2026-11-09") == first
    assert begin(db.main, "other") == first, "the caller compares, and refuses"
    last = [0, 0, 5, 0, True, *([] for _ in range(9))]
    assert db.main.one(INSERT, *last) == 0
    assert begin(db.main, "7d")[:5] == (5, 0, 0, True, "7d")
    assert replay(db.main, [1, 1], (5, 0)) is None, "it is done"
    again = begin(db.main, "7d", again=True, since="2026-11-02")
    assert again[:4] == (0, 0, 0, False)
    assert again.since != first.since
    db.main.one(INSERT, *last)
    assert begin(db.main, "other")[:5] == (0, 0, 0, False, "other")
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    assert db.main.one("select count(*) from pgq.replay") == 0


def test_event_that_the_consumer_has_yet_to_get_comes_once(db: Database) -> None:
    db.queue()
    start, a, b, c = ticked(db.main, "a", "b", "c")
    assert db.main.finish(db.main.next()) == 1
    assert db.main.next() is not None, "b is in its open batch"
    begin(db.main)
    assert replay(db.main, [start, a]) == 1
    assert replay(db.main, [a, b], (a, 1)) == 0
    assert replay(db.main, [b, c], (b, 1)) == 0
    put_back(db.main)
    assert db.main.drain() == ["b", "c", "a"]


def test_slowest_subconsumer_counts(db: Database) -> None:
    one, two = subconsumers(db, "ab")
    start = int(db.main.one("select min(tick_id) from pgq.get_tick_info('q')"))
    slow, fast = one.take(), two.take()
    assert two.finish(fast) == 1
    begin(db.main)
    assert replay(db.main, [start, start + 1]) == 0
    assert one.finish(slow) == 1
    one.take()
    assert replay(db.main, [start, start + 1], (start + 1, 1)) == 1
    put_back(db.main)
    assert one.drain() + two.drain() == ["a"]


def test_filter_of_the_consumer_decides(db: Database) -> None:
    db.queue()
    db.main.one(FILTER)
    start = int(db.main.one("select max(tick_id) from pgq.get_tick_info('q')"))
    for kind, data, extra in (("x", "a", "eu"), ("y", "b", "eu"), ("x1", "c", "us")):
        db.main.one(TYPED, kind, data, extra)
    end = db.main.tick()
    assert db.main.drain() == ["a"]
    begin(db.main)
    assert replay(db.main, [start, end]) == 1
    put_back(db.main)
    assert db.main.drain() == ["a"]


def test_event_that_waits_already_is_not_inserted(db: Database) -> None:
    db.queue()
    start, end = ticked(db.main, "abc")
    fail(db.main, "b", seconds=1000)
    begin(db.main)
    assert replay(db.main, [start, end]) == 2
    assert db.main.one(RETRIES) == ["a", "b", "c"]


def test_event_whose_retried_copy_is_in_the_queue_comes_with_it_and_again(db: Database) -> None:
    db.queue()
    start, end = ticked(db.main, "ab")
    fail(db.main, "b")
    put_back(db.main)
    begin(db.main)
    assert replay(db.main, [start, end]) == 2
    put_back(db.main)
    assert db.main.drain() == ["b", "a", "b"], "docs/archive.md says so"
    assert replay(db.main, [start, end], (end, 2)) == 2
    put_back(db.main)
    assert db.main.drain() == ["a", "b"], "a consumer that has caught up gets each once"


def test_cancelled_and_skipped_events_stay_hidden(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    start = int(db.main.one("select max(tick_id) from pgq.get_tick_info('q')"))
    ids = [db.main.insert(data) for data in "abcd"]
    cancel(db.main, ids[0])
    skip(db.main, "c", ids[1])
    skip(db.main, "d", ids[2])
    end = db.main.tick()
    assert db.main.drain() == ["c", "d"]
    begin(db.main)
    assert replay(db.main, [start, end]) == 2
    put_back(db.main)
    assert db.main.drain() == ["c", "d"]


def test_reader_by_ticks_and_subconsumer_are_refused(db: Database) -> None:
    subconsumers(db, "a")
    db.main.one("select pgq.register_consumer('q', 'lake')")
    tick = db.main.one("select max(tick_id) from pgq.get_tick_info('q')")
    db.main.one("select pgq.advance_subscription('q', 'lake', %s, %s)", tick, tick)
    for state, consumer in (("PQ017", "lake"), ("PQ020", "c.1"), ("PQ002", "none")):
        with refused(state):
            begin(db.main, consumer=consumer)
    with refused("PQ009"):
        begin(db.main, since=None)
    with refused("PQ009"):
        db.main.one(INSERT, 0, 0, 1, 1, False, [1], *([] for _ in range(8)))


def test_detached_consumer_gets_what_it_lost_when_it_is_attached_again(db: Database) -> None:
    db.queue(consumers=("c", "other"))
    start = db.main.tick()
    begin(db.main)
    stall(db)
    call = call_of(db.main, [start, db.main.one("select max(tick_id) from pgq.get_tick_info('q')")])
    assert detach(db) == 1
    for refuse in (lambda: begin(db.main, again=True), lambda: db.main.one(INSERT, *call)):
        with refused("PQ024"):
            refuse()
    assert db.main.rotate() == 0, "a is gone"
    db.main.one(REATTACH, True)
    assert db.main.one(INSERT, *call) == 2
    put_back(db.main)
    assert db.main.drain() == ["a", "b"]


@pytest.mark.parametrize("moved", [False, True], ids=["waiting", "moved"])
def test_unregistered_consumer_leaves_nothing(db: Database, moved: bool) -> None:
    db.queue()
    start, end = ticked(db.main, "a")
    db.main.drain()
    begin(db.main)
    call = call_of(db.main, [start, end])
    db.main.one(INSERT, *call)
    if moved:
        put_back(db.main)
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    with refused("PQ002"):
        db.main.one(INSERT, *call)
    db.main.one("select pgq.register_consumer('q', 'c')")
    assert db.main.one(INSERT, *call) is None, "it is another consumer"
    assert db.main.deliver() == []


MOVE = "select pgq.register_consumer_at('q', 'c', %s)"
SEEK = "select tick_id from pgq.seek_consumer('q', 'c', %s)"


def test_seek_back_waits_for_a_replay_and_takes_its_events_once(db: Database) -> None:
    db.queue()
    start, end = ticked(db.main, "ab")
    db.main.drain()
    begin(db.main)
    assert db.behind(lambda session: replay(session, [start, end]), SEEK, start) == start
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
    assert db.behind(lambda session: replay(session, ticks), MOVE, ticks[0]) == 0
    assert db.main.drain() == ["a", "b"]
    assert db.main.one(RETRIES) == ["a", "b"]
