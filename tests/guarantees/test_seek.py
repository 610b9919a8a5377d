"""Seek: a consumer goes to a tick or a time, with what it retried or holds, and beside others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.guarantees.coop import subconsumers
from tests.guarantees.seek import (
    MOVE_RETRIES,
    PINS,
    RETRIES,
    SEEK,
    SEEK_TIME,
    fail,
    put_back,
    retry,
    ticked,
)
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.guarantees.sessions import Database, Session


EXPIRE = "update pgq.queue set queue_low_tick = %s where queue_name = 'q' returning 1"


def test_consumer_gets_again_what_comes_after_the_place(db: Database) -> None:
    db.queue()
    start, _, b, _ = ticked(db.main, "a", "b", "c")
    assert db.main.drain() == ["a", "b", "c"]
    assert db.main.one(SEEK, b, False) == b
    assert list(db.main.batches()) == [["c"]]
    assert db.main.one(SEEK_TIME, "-infinity") == start
    assert db.main.drain() == ["a", "b", "c"]
    db.main.insert("d")
    assert db.main.one(SEEK, b, False) == b
    assert db.main.one(SEEK_TIME, "infinity") == b + 1
    assert db.main.deliver() == ["d"]
    db.main.one(SEEK, start, False)
    first = db.main.all("select ev_id, ev_data, ev_txid from pgq.event_1 order by 1 limit 1")
    assert db.main.events(db.main.next()) == first, "ids are the same"


def test_time_is_the_tick_before_the_first_later_one(db: Database) -> None:
    db.queue()
    ticked(db.main, "a", "b", "c", "d")
    times = ["12:00", "12:10", "12:05", "12:20", "12:30"]  # stepped back at the third
    for tick, time in enumerate(times, 1):
        statement = "update pgq.tick set tick_time = %s where tick_id = %s returning 1"
        db.main.one(statement, f"2026-01-01 {time}", tick)
    for time, tick in {"12:00": 1, "12:07": 1, "12:10": 3, "12:25": 4, "23:00": 5}.items():
        assert db.main.one(SEEK_TIME, f"2026-01-01 {time}") == tick
    assert db.main.one("select pgq.get_tick_at('q', '2026-01-01 11:59')") is None


def test_place_that_cannot_be_reached_is_refused_with_the_earliest(db: Database) -> None:
    db.queue()
    ticked(db.main, *"abcdefg")
    db.main.run("delete from pgq.tick where tick_id = 5")
    db.main.run("update pgq.tick set tick_time = '2026-01-02 12:00+00' where tick_id = 4")
    assert db.main.one(EXPIRE, 4) == 1
    db.main.run("set time zone 'UTC'")
    named = "the earliest tick of queue q is 4, of 2026-01-02 12:00:00+00"
    for place, state, more in (
        ((3, None), "PQ016", ""),
        ((None, "2026-01-02 11:00+00"), "PQ016", ""),
        ((5, None), "PQ005", "; the last one before it is 4"),
        ((99, None), "PQ005", "; the last one before it is 8"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            db.main.all("select pgq.seek_consumer('q', 'c', %s, i_time => %s)", *place)
        assert caught.value.sqlstate == state
        assert (caught.value.diag.message_primary or "").endswith(named + more)
        assert "first_tick=4, last_tick=8" in (caught.value.diag.message_detail or "")


@pytest.mark.alone
def test_seek_is_for_subscribed_consumers(db: Database) -> None:
    subconsumers(db, "a")
    for state, call in (
        ("PQ001", "('none', 'c', 1)"),
        ("PQ002", "('q', 'none', 1)"),
        ("PQ020", "('q', 'c.1', 1)"),
        ("PQ009", "('q', 'c', null)"),
        ("PQ009", "('q', 'c', 1, i_time => 'infinity')"),
    ):
        with refused(state):
            db.main.one(f"select pgq.seek_consumer{call}")
    assert db.main.all("select co_name from pgq.consumer order by 1") == [
        ("c",),
        ("c.1",),
        ("c.2",),
    ]


def test_stream_is_not_moved_whether_it_has_a_range_or_not(db: Database) -> None:
    db.queue()
    ticks = ticked(db.main, "a", "b")
    db.main.one("select pgq.advance_subscription('q', 'c', 1, 1)")  # as it begins
    with refused("PQ017"):
        db.main.one(SEEK, ticks[0], False)
    db.main.one(PINS, ticks[0], ticks[1])
    with refused("PQ017"):
        db.main.one(SEEK, ticks[0], False)
    db.main.one("select pgq.advance_subscription('q', 'c', 1, %s)", ticks[1])
    with refused("PQ017"):
        db.main.one(SEEK, ticks[0], False)
    db.main.one("select pgq.unregister_consumer('q', 'c')")
    db.main.one("select pgq.register_consumer('q', 'c')")
    assert db.main.one(SEEK, ticks[0], False) == ticks[0]


def test_open_batch_is_lost_with_its_attempts(db: Database) -> None:
    db.queue()
    start, *_ = ticked(db.main, "a", "b")
    attempts = "select attempts from pgq.open_batch('q', 'c')"
    assert [db.main.one(attempts) for _ in range(2)] == [1, 2]
    batch = db.main.next()
    assert db.main.one(SEEK, start + 1, False) == start + 1
    assert db.main.finish(batch) == 0
    assert db.main.one(attempts) == 1
    assert db.main.next() != batch
    assert db.main.drain() == ["b"]


def test_subconsumers_move_together(db: Database) -> None:
    one, other = subconsumers(db, "abcd")
    batches = [one.take(), other.take()]
    assert db.main.one(SEEK, 3, True) == 3
    assert [one.finish(batches[0]), other.finish(batches[1])] == [0, 0]
    assert other.drain() == ["c", "d"]
    assert db.main.one(SEEK, 1, False) == 1
    assert one.drain() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("discard", "waiting", "again"),
    [(False, ["a"], ["b", "a"]), (True, None, ["b"])],
)
def test_retries_of_what_comes_again_are_dropped(
    db: Database, *, discard: bool, waiting: Any, again: list[str]
) -> None:
    db.queue()
    _, place, _ = ticked(db.main, "a", "b")
    assert fail(db.main, "a", "b") == ["a", "b"]
    put_back(db.main)
    assert fail(db.main, "a", "b") == ["a", "b"], "two copies that were delivered"
    put_back(db.main)  # two that were not
    fail(db.main, "a", "b", seconds=1000)
    put_back(db.main)
    count = "select dropped from pgq.seek_consumer('q', 'c', %s, %s)"
    assert db.main.one(count, place, discard) == (2 if discard else 1)
    assert db.main.one(RETRIES) == waiting
    assert sorted(set(db.main.drain())) == sorted(again)
    assert db.main.one(SEEK, place, discard) == place
    found = db.main.drain()
    assert found.count("b") == 1
    assert found.count("a") == (0 if discard else 2), "the place does not see those"


def test_what_is_retried_after_a_seek_comes(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "ab")
    fail(db.main, "a")
    put_back(db.main)
    db.main.one(SEEK, place, True)
    assert fail(db.main, "a", "b") == ["a", "b"]
    put_back(db.main)
    assert db.main.drain() == ["a", "b"]


@pytest.mark.parametrize("discard", [False, True])
def test_later_seek_brings_nothing_back_that_an_earlier_one_dropped(
    db: Database, *, discard: bool
) -> None:
    db.queue()
    place, handled = ticked(db.main, "ab")
    fail(db.main, "a", "b")
    put_back(db.main)
    db.main.one(SEEK, place, discard)
    db.main.finish(db.main.next())
    db.main.one(SEEK, handled, False)
    assert db.main.drain() == []
    db.main.one(SEEK, place, False)
    assert db.main.drain() == ["a", "b"]


@pytest.mark.alone
def test_copies_that_every_tick_sees_are_forgotten(db: Database) -> None:
    db.queue()
    for _ in range(9):
        *_, last = ticked(db.main, "a")
        db.main.one(SEEK, last, False)
        db.main.rotate()
    kept = "select cardinality(sub_dropped) from pgq.registration"
    assert db.main.one(kept) <= db.main.one(
        "select queue_ntables + 1 from pgq.queue where queue_id = 1"
    )


def test_repair_forgets_what_a_seek_dropped(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "ab")
    fail(db.main, "a", "b")
    put_back(db.main)
    db.main.one(SEEK, place, True)
    # as in a cluster whose transaction ids are smaller
    db.main.run(
        "update pgq.registration set sub_dropped = array['9000000:9000000:'::txid_snapshot]"
    )
    assert db.main.one("select pgq.repair_queue('q')") == 2, "without the copies"
    assert db.main.drain() == ["a", "b"]
    fail(db.main)
    db.main.tick_after("c")
    fail(db.main, "c")
    put_back(db.main)
    assert db.main.drain() == ["c"]


@pytest.mark.parametrize("discard", [False, True])
def test_cancelled_event_stays_hidden(db: Database, *, discard: bool) -> None:
    db.queue()
    place, *_ = ticked(db.main, "ab", "cd")
    batch = db.main.next()
    retry(db.main, batch, "a", "b", seconds=1000)
    assert db.main.finish(batch) == 1
    ids = [row[0] for row in db.main.all("select ev_id from pgq.event_1 order by 1")]
    cancel = "select state from pgq.skip_event('q', 'c', array[%s])"
    assert db.main.one(cancel, ids[2]) == "cancelled"
    assert db.main.one(SEEK, place, discard) == place
    assert db.main.drain() == ["a", "b", "d"]
    assert db.main.one(cancel, ids[1]) == "delivered"
    assert db.main.one(SEEK, place, discard) == place
    assert db.main.one(cancel, ids[1]) == "cancelled", "it is to come again"
    assert db.main.drain() == ["a", "d"]


RAW = """
    select pgq.event_retry_raw('q', 'c', now() + interval '1 hour', 1::bigint, now(), 0, 't', 'raw',
        null, null, null, null)"""


def seek_later(db: Database, place: int, *, discard: bool) -> tuple[Session, Future[int]]:
    """Start a seek that another session holds up."""
    seeker = db.open()
    call = seeker.later(SEEK, place, discard)
    wait_until_blocked(db.main.connection, seeker.pid)
    return seeker, call


def test_batch_that_is_being_finished_is_finished_before(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    batch = db.main.next()
    worker = db.open()
    worker.begin()
    assert worker.finish(batch) == 1
    _, call = seek_later(db, place, discard=False)
    worker.commit()
    assert call.result(timeout=30) == place
    assert db.main.drain() == ["a"]


def test_batch_is_not_finished_behind_a_seek(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    batch = db.main.next()
    late = db.behind(
        lambda seeker: seeker.one(SEEK, place, False), "select pgq.finish_batch(%s)", batch
    )
    assert late == 0
    assert db.main.drain() == ["a"]


@pytest.mark.parametrize("how", ["plain", "subconsumer", "raw"])
def test_event_that_is_being_retried_is_dropped_too(db: Database, how: str) -> None:
    if how == "subconsumer":
        (one,) = subconsumers(db, "", 1)
        place, _ = ticked(db.main, "a")
        session, batch = one.session, one.take()
    else:
        db.queue()
        place, _ = ticked(db.main, "a")
        session, batch = db.open(), db.main.next()
    session.begin()
    if how == "raw":
        session.one(RAW)
    else:
        retry(session, batch, "a")
    _, call = seek_later(db, place, discard=True)
    session.commit()
    assert call.result(timeout=30) == place
    assert db.main.one(RETRIES) is None


def test_event_that_is_being_put_back_is_dropped_too(db: Database) -> None:
    db.queue()
    _, place = ticked(db.main, "a")
    fail(db.main, "a")
    mover = db.open()
    mover.begin()
    assert mover.one(MOVE_RETRIES) == 1
    _, call = seek_later(db, place, discard=True)
    mover.commit()
    assert call.result(timeout=30) == place
    assert db.main.deliver() == []


def test_move_of_retries_that_began_before_brings_what_is_retried_after(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    mover = db.open()
    mover.begin()
    assert mover.one("select txid_current() > 0")
    db.main.one("select txid_current()")
    db.main.one(SEEK, place, True)
    batch = db.main.next()
    (event,) = db.main.events(batch)
    db.main.one("select pgq.event_retry(%s, %s, '2020-01-01'::timestamptz)", batch, event.id)
    assert db.main.finish(batch) == 1
    assert mover.one(MOVE_RETRIES) == 1
    mover.commit()
    assert db.main.deliver() == ["a"]


def test_transaction_that_seeks_may_move_retries_too(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "ab")
    fail(db.main, "b", seconds=1000)
    db.main.begin()
    db.main.one(SEEK, place, True)
    assert fail(db.main, "a") == ["a", "b"]
    db.main.one("select count(*) from (select txid_current()) t")
    db.main.run("update pgq.retry_queue set ev_retry_after = now()")
    assert db.main.one(MOVE_RETRIES) == 1
    db.main.commit()
    assert db.main.deliver() == ["a"]


def rotated_beside(db: Database) -> Session:
    """Return a session whose rotation removes the first events, and is not committed yet."""
    db.queue()
    for letter in "abc":
        ticked(db.main, letter)
        db.main.drain()
        if letter != "c":
            db.main.rotate()
    rotator = db.open()
    rotator.begin()
    rotator.one("select pgq.maint_rotate_tables_step1('q')")
    return rotator


def test_seek_that_waited_for_a_rotation_goes_to_what_is_left(db: Database) -> None:
    rotator = rotated_beside(db)
    seeker, other = db.open(), db.open()
    beginning = seeker.later(SEEK_TIME, "-infinity")
    gone = other.later(SEEK, 2, False)
    for session in (seeker, other):
        wait_until_blocked(db.main.connection, session.pid)
    rotator.commit()
    low = db.main.one("select queue_low_tick from pgq.queue where queue_id = 1")
    assert low > 2
    assert beginning.result(timeout=30) == low
    with refused("PQ016"):
        gone.result(timeout=30)


def test_rotation_and_compaction_wait_for_a_seek(db: Database) -> None:
    rotated_beside(db).rollback()
    seeker = db.open()
    seeker.begin()
    assert seeker.one(SEEK, 2, False) == 2
    assert db.main.rotate() == 2
    assert db.main.one("select pgq.compact_ticks()") is False
    seeker.commit()
    assert db.main.rotate() == 0, "of what came before"
    assert db.main.rotate() == 0, "the consumer needs the rest again"
    assert db.main.drain() == ["b", "c"]


def test_put_back_events_are_not_searched_once_their_ticks_have_passed(db: Database) -> None:
    db.queue()
    place, _ = ticked(db.main, "a")
    fail(db.main, "a")
    put_back(db.main)
    db.main.one(SEEK, place, True)
    text = "select pgq.batch_event_sql(%s) like '%%txid_visible%%'"
    assert db.main.one(text, db.main.next()) is True
    assert db.main.drain() == ["a"]
    assert db.main.deliver() == []
    db.main.tick()
    assert db.main.one(text, db.main.next()) is False
