"""G3: an event is in one batch of a consumer, and a batch delivered again is the same."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.guarantees.sessions import RC, RR, SERIALIZABLE, refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

NEXT = "select pgq.next_batch('q', 'c')"
# Each takes a lock, and then has to see what its last holder committed.
NEED_READ_COMMITTED = """
    tick_queue('q'); ticker(); ticker('q'); ticker('q', 9, now(), 9); move_delayed_events()
    maint_rotate_tables_step1('q'); maint_ticks('q'); maint_stalled(); repair_queue('q')
    next_batch('q', 'c'); next_batch_info('q', 'c'); next_batch_custom('q', 'c', null, null, null)
    register_shared_consumer('q', 'c'); pgq_coop.next_batch('q', 'c', 'w')
    register_consumer('q', 'd'); register_consumer_at('q', 'c', 1); unregister_consumer('q', 'c')
    pgq_coop.register_subconsumer('q', 'c', 'w'); pgq_coop.unregister_subconsumer('q', 'c', 'w', 0)
    pin_range('q', 'c', 1, 2); advance_subscription('q', 'c', 1, 2); seek_consumer('q', 'c', 1)
    open_batch('q', 'c'); set_consumer_filter('q', 'c', '{}')
    set_consumer_mode('q', 'c', 'plain'); set_consumer_limits('q', 'c', 1)
    reattach_consumer('q', 'c')
    begin_replay('q', 'c', 'all', '-infinity', 'infinity'); drop_queue('q', true); receive('q', 'c')
    cancel_event('q', '{1}'); skip_event('q', 'c', '{1}')
    replay_events('q', 'c', 0, 0, 1, 0, true, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')
"""


def test_batch_is_the_same_each_time_it_is_read(db: Database) -> None:
    db.queue()
    producer = db.open()
    producer.begin()
    producer.insert("late")
    db.main.tick_after("a")
    batch = db.main.next()
    first = db.main.events(batch)
    producer.commit()
    for number in range(3):
        db.main.tick_after(f"later {number}")
        db.main.rotate()
        assert db.main.next() == batch
        assert db.main.events(batch) == first
    assert db.main.finish(batch) == 1
    assert db.main.drain() == ["late", "later 0", "later 1", "later 2"]


def test_two_sessions_that_ask_at_once_get_one_batch(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    db.main.tick()
    one, other = db.open(), db.open()
    one.begin()
    batch = one.next()
    asked = other.later(NEXT)
    assert wait_until_blocked(db.main.connection, other.pid) == [one.pid]
    one.commit()
    assert asked.result(timeout=30) == batch
    assert other.data(batch) == ["a"]


def test_batch_that_was_opened_and_rolled_back_is_given_to_the_next(db: Database) -> None:
    db.queue()
    db.main.tick_after("a")
    assert db.main.data(db.behind(lambda one: one.next(), NEXT, end="rollback")) == ["a"]


def test_tickers_at_once_make_ticks_that_contain_each_other(db: Database) -> None:
    db.queue()
    sessions = [db.open() for _ in range(5)]
    producers = [db.open() for _ in range(3)]
    committed: list[str] = []
    for turn in range(15):
        producer = producers[turn % len(producers)]
        data = _produce(producer, turn, committed)
        _tick_at_once(db, sessions)
        committed.append(data)
    for producer in producers:
        producer.commit()
    assert _chain_breaks(db.main) == []
    delivered = db.main.deliver()
    assert sorted(delivered) == sorted(committed)


def _produce(producer: Session, turn: int, committed: list[str]) -> str:
    """Commit what the producer has open and leave a new event open."""
    if turn >= 3:
        producer.commit()
    assert len(committed) == turn
    producer.begin()
    producer.insert(f"event {turn}")
    return f"event {turn}"


def _tick_at_once(db: Database, tickers: list[Session]) -> None:
    """Let all tickers wait behind the first, and let it go."""
    first, *others = tickers
    first.begin()
    first.tick()
    waiting = [other.later("select tick_id from pgq.tick_queue('q')") for other in others]
    for other in others:
        wait_until_blocked(db.main.connection, other.pid)
    first.commit()
    for tick in waiting:
        tick.result(timeout=30)


CONTAINS = """
    select before.tick_id, after.tick_id
    from pgq.tick before join pgq.tick after
        on after.tick_queue = before.tick_queue and after.tick_id > before.tick_id
    where exists (
        select from generate_series(txid_snapshot_xmin(before.tick_snapshot) - 1,
                                    txid_snapshot_xmax(before.tick_snapshot)) xid
        where txid_visible_in_snapshot(xid, before.tick_snapshot)
            and not txid_visible_in_snapshot(xid, after.tick_snapshot))
"""


def _chain_breaks(session: Session) -> list[tuple[int, int]]:
    """Return the pairs of ticks of which the younger does not see all that the older sees."""
    return [(before, after) for before, after in session.all(CONTAINS)]


def test_ticker_that_waited_for_another_sees_what_committed_meanwhile(db: Database) -> None:
    db.queue()
    one, other = db.open(), db.open()
    one.begin()
    one.tick()
    ticked = other.later("select tick_snapshot from pgq.tick_queue('q')")
    wait_until_blocked(db.main.connection, other.pid)
    db.main.insert("meanwhile")
    txid = db.main.one("select max(ev_txid) from pgq.event_template")
    one.commit()
    snapshot = ticked.result(timeout=30)
    assert db.main.one("select txid_visible_in_snapshot(%s, %s::txid_snapshot)", txid, snapshot)


def test_ticker_that_waited_for_another_looks_again_whether_it_is_time(db: Database) -> None:
    db.queue(ticker_max_count="1")
    db.main.insert("a")
    assert db.behind(lambda one: one.tick(), "select pgq.ticker('q')") is None
    assert db.main.one("select pgq.ticker('q')") is None


@pytest.mark.parametrize("isolation", [RR, SERIALIZABLE])
def test_what_ticks_opens_or_moves_needs_read_committed(
    db: Database, subtests: pytest.Subtests, isolation: str
) -> None:
    db.queue(external_ticker="false", ticker_max_lag="0")
    db.main.insert("due")
    db.queue("external", external_ticker="true")
    calls = NEED_READ_COMMITTED.replace("ticker('q', 9", "ticker('external', 9").replace("\n", ";")
    session = db.open()
    for call in filter(None, map(str.strip, calls.split(";"))):
        session.begin(isolation)
        with subtests.test(call), refused("PQ013"):
            session.one(f"select 1 from {'' if call.startswith('pgq_') else 'pgq.'}{call}")
        session.rollback()


def test_ids_of_ticks_and_batches_go_up(db: Database) -> None:
    db.queue()
    seen = []
    for _ in range(5):
        db.main.tick()
        batch = db.main.next()
        ticks = db.main.all("select prev_tick_id, tick_id from pgq.get_batch_info(%s)", batch)
        seen.append((batch, *ticks[0]))
        db.main.finish(batch)
    assert all(a[0] < b[0] and a[2] == b[1] for a, b in itertools.pairwise(seen))


def test_retried_event_comes_again_to_its_consumer_only(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    db.main.tick_after("a")
    batch = db.main.next("c")
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    db.main.finish(batch)
    db.main.one("select pgq.maint_retry_events()")
    db.main.tick()
    assert [db.main.drain(consumer) for consumer in "cd"] == [["a"], ["a"]]


@pytest.mark.parametrize("call", ["batch_retry(%s, 0)", "event_retry(%s, 1, 0)"])
def test_retried_event_says_how_often_it_was_retried(db: Database, call: str) -> None:
    db.queue()
    db.main.insert("a")
    counts = []
    for _ in range(3):
        db.main.tick()
        batch = db.main.next()
        counts.append(db.main.one("select ev_retry from pgq.get_batch_events(%s)", batch))
        assert db.main.one(f"select pgq.{call}", batch) == 1
        db.main.finish(batch)
        db.main.one("select pgq.maint_retry_events()")
    assert counts == [None, 1, 2]


def test_event_and_its_retried_copy_in_one_batch_can_both_be_set_aside(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    tick = db.main.tick()
    batch = db.main.next()
    db.main.one("select pgq.batch_retry(%s, 0)", batch)
    db.main.finish(batch)
    db.main.one("select pgq.maint_retry_events()")
    db.main.tick()
    db.main.one("select pgq.register_consumer_at('q', 'c', %s)", tick - 1)
    query = "select batch_id from pgq.next_batch_custom('q', 'c', null, 1, null)"
    batch = db.main.one(query)
    events = db.main.events(batch)
    assert [event.data for event in events] == ["a", "a"]
    ids, txids = [e.id for e in events], [e.txid for e in events]
    retry = "select pgq.event_retry(%s, %s, %s, '{0s,0s}')"
    assert db.main.one(retry, batch, ids, txids) == 1


READS = {
    "get_batch_events": "select count(*) from pgq.get_batch_events(%(batch)s)",
    "get_batch_cursor": "select count(*) from pgq.get_batch_cursor(%(batch)s, 'cursor', 10)",
    "batch_event_sql": "select pgq.batch_event_sql(%(batch)s)",
    "event_retry one": "select pgq.event_retry(%(batch)s, %(id)s, 0)",
    "event_retry many": "select pgq.event_retry(%(batch)s, array[%(id)s], array[%(txid)s], '{0s}')",
    "batch_retry": "select pgq.batch_retry(%(batch)s, 0)",
    "event_dead": "select pgq.event_dead(%(batch)s, array[%(id)s], array[%(txid)s], '{why}')",
}


def _rotate_until_empty(db: Database) -> None:
    """Rotate until every table that there was is truncated."""
    for _ in range(3):
        db.main.deliver()
        db.main.rotate()
    assert db.main.one("select count(*) from pgq.event_1") == 0


def test_batch_that_was_finished_and_rotated_away_is_refused(
    db: Database, subtests: pytest.Subtests
) -> None:
    db.queue()
    db.main.tick_after("a")
    batch = db.main.next()
    (event,) = db.main.events(batch)
    args = {"batch": batch, "id": event.id, "txid": event.txid}
    readers = {(name, at_first): db.open() for name in READS for at_first in (True, False)}
    for (_, at_first), reader in readers.items():
        if not at_first:  # the first read of a session checks the queue
            reader.events(batch)
        reader.begin(RR)
    assert db.main.finish(batch) == 1
    _rotate_until_empty(db)
    for (name, at_first), reader in readers.items():
        with subtests.test(name, at_first=at_first), refused("40001"):
            reader.connection.execute(READS[name].encode(), args)


@pytest.mark.parametrize("isolation", [RC, RR])
def test_batch_that_is_open_is_read_whatever_was_rotated_before(
    db: Database, isolation: str
) -> None:
    db.queue()
    _rotate_until_empty(db)
    db.main.tick_after("a")
    batch = db.main.next()
    reader = db.open()
    reader.begin(isolation)
    assert reader.data(batch) == ["a"]
    current = db.main.one("select queue_cur_table from pgq.queue")
    assert db.main.rotate() == current, "not while somebody reads"
    assert reader.finish(batch) == 1
    reader.commit()
