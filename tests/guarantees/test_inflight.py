"""Events in flight: each has one holder at a time, and comes until it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.inflight import (
    SOON,
    call,
    data,
    done,
    drain,
    end_lease,
    follow,
    insert,
    receive,
    shared,
)
from tests.guarantees.sessions import refused
from tests.guarantees.stages import commit_stage, stage
from tests.support import gates

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

BULK = """
    insert into pgq.event_{}_0 (ev_type, ev_data)
    select 't', g from generate_series(1, {}) g"""
TOKENS = "select run_token from pgq.inflight"
LEFT = "select coalesce(sum(cardinality(run_ids)), 0) from pgq.inflight"
POSITION = """
    select pos_last_tick from pgq.current_position natural join pgq.consumer
     where co_name = 's' and co_id = sub_consumer"""

NO_SWEEP = """
    create or replace function pgq.sweep_runs(s pgq.registration, f pgq.front, i_last bigint)
    returns boolean language plpgsql as $$ begin {} return false; end $$"""


def test_each_event_goes_to_one_receiver(db: Database) -> None:
    shared(db, *"abcd")
    one, other = db.open(), db.open()
    one.begin()
    assert data(receive(one, 2)) == ["a", "b"]
    assert data(receive(other, 2)) == []  # the refill is not committed
    one.commit()
    other.begin()
    claimed = receive(other, 2)
    assert data(claimed) == ["c", "d"]
    other.rollback()
    assert data(receive(one, 2)) == ["c", "d"]


def test_receiver_that_comes_late_to_a_refill_looks_again(db: Database) -> None:
    shared(db, "a", "b")
    late = db.open()
    with db.held(late, NO_SWEEP) as gate:  # it has looked, and found nothing
        receives = late.later("select ev_data from pgq.receive('q', 's')")
        gate.wait_for_arrival()
        assert data(receive(db.main)) == ["a"]
        gate.open()
        assert receives.result(timeout=30) == "b"


def test_list_is_cut_where_the_limit_is(db: Database) -> None:
    shared(db, *"abcdefgh")
    first = receive(db.main, 5)
    assert data(first) == [*"abcde"]
    assert [data(receive(db.main)) for _ in range(4)] == [["f"], ["g"], ["h"], []]
    assert done(db.main, first[1:3]) == 2
    assert done(db.main, first) == 3
    assert done(db.main, first) == 0


def test_done_that_is_rolled_back_was_never_said(db: Database) -> None:
    shared(db, "a")
    one = db.open()
    claimed = receive(db.main)
    one.begin()
    assert done(one, claimed) == 1
    one.rollback()
    assert done(db.main, claimed) == 1
    assert db.main.one(LEFT) == 0


def test_events_of_late_and_prepared_transactions_come(db: Database) -> None:
    """A producer takes its id before it commits: no new id does not mean that nothing is new."""
    shared(db)
    late = db.open()
    late.begin()
    insert(late, "late")
    insert(db.main, "a")
    assert drain(db.main) == ["a"]
    assert drain(db.main) == []
    late.commit()
    assert drain(db.main) == ["late"]


def test_backlog_whose_tick_sees_nothing_new_is_passed(db: Database) -> None:
    """Ticks are chosen by their sequence numbers, which belong to whoever took them."""
    shared(db)
    late = db.open()
    late.begin()
    for _ in range(2):
        late.run(BULK.format(1, 1200))
        db.main.tick()
    db.main.run(BULK.format(1, 3))
    assert len(drain(db.main)) == 3
    late.commit()
    assert len(drain(db.main, 1000)) == 2400


@pytest.mark.parametrize("limit", [1, 7, 500])
def test_large_transaction_is_read_in_pieces(db: Database, limit: int) -> None:
    shared(db)
    before = db.main.one(POSITION)
    db.main.run(BULK.format(1, 70_000 if limit == 500 else 3000))
    late = db.open()
    late.begin()
    insert(late, "late")
    first = receive(db.main, limit)
    db.main.tick()
    assert db.main.one("select count(*) > 0 from pgq.piece")
    db.main.run("update pgq.front set front_swept = '-infinity', front_tick = front_tick + 1")
    second = receive(db.main, limit, alone=True)
    assert db.main.one(POSITION) == before  # so that no piece is truncated
    late.commit()
    assert done(db.main, first) == done(db.main, second) == limit
    found = data(first + second) + drain(db.main, 500)
    assert found[-1] == "late"
    assert [int(each) for each in found[:-1]] == [*range(1, len(found))]


def test_list_is_as_long_as_asked_for_whoever_asked_before(db: Database) -> None:
    """Runs are as long as their first receivers asked for."""
    shared(db)
    db.main.run(BULK.format(1, 3000))
    found = [len(receive(db.main, limit)) for limit in (1, 100, 10, 100, 1, 400, 100, 100)]
    assert found == [1, 100, 10, 100, 1, 400, 100, 100]


def test_position_follows_the_front(db: Database) -> None:
    shared(db, "a")
    (claimed,) = receive(db.main)
    follow(db)
    assert db.main.one(POSITION) == db.main.one("select max(tick_id) from pgq.tick")
    assert done(db.main, [claimed]) == 1


def test_events_in_flight_outlive_their_table(db: Database) -> None:
    shared(db, "a", "b")
    claimed = receive(db.main, 2)
    follow(db)
    handler = db.open()
    handler.begin()
    assert done(handler, claimed[:1]) == 1  # and no lock of it holds the rotation back
    for table in (1, 2, 0, 1):
        follow(db)
        assert db.main.rotate() == table
    handler.rollback()
    end_lease(db, claimed)
    assert drain(db.main) == ["a", "b"]
    db.main.one("select pgq.drop_copies(1)")
    assert db.main.one("select count(*) from pgq.inflight_copy") == 0


def test_reader_that_waits_for_the_truncation_finds_the_copy(db: Database) -> None:
    shared(db, "a")
    claimed = receive(db.main)
    for table in (1, 2):
        follow(db)
        assert db.main.rotate() == table
    follow(db)
    end_lease(db, claimed)
    rotation, reader = db.open(), db.open()
    rotation.begin()
    assert rotation.rotate() == 0
    waits = reader.later("select ev_data from pgq.receive('q', 's')")
    assert gates.wait_until_blocked(db.main.connection, reader.pid) == [rotation.pid]
    rotation.commit()
    assert waits.result(timeout=30) == "a"


def test_what_batches_leave_out_is_left_out(db: Database) -> None:
    """A filter, cancelled events, events of a stage that is not released."""
    shared(db)
    db.main.one("""select pgq.set_consumer_filter('q', 's', '{"types": ["t"]}')""")
    db.main.one("select pgq.insert_event('q', 'other', 'filtered')")
    event = db.main.insert("cancelled")
    db.main.one("select pgq.cancel_event('q', array[%s::bigint])", event)
    staged = stage(db.open(), "staged")
    insert(db.main, "a")
    assert drain(db.main) == ["a"]
    assert commit_stage(db.main, staged)
    assert drain(db.main) == ["staged"]


def test_retried_event_comes_after_its_delay(db: Database) -> None:
    shared(db, *"abcd")
    claimed = receive(db.main, 4)
    assert call(db.main, "retry", claimed[1:3], "1 hour") == 2
    assert call(db.main, "release", claimed[3:]) == 1
    again = receive(db.main, 4)
    assert [(each.data, each.attempts) for each in again] == [("d", 1)]
    db.main.run(SOON)
    again = receive(db.main, 4)
    assert [(each.data, each.attempts) for each in again] == [("b", 2), ("c", 2)]
    assert done(db.main, claimed) == 1


def test_dead_event_is_kept_with_its_reason(db: Database) -> None:
    shared(db, "a", "b")
    claimed = receive(db.main, 2)
    assert call(db.main, "dead", claimed[:1], "no address") == 1
    assert done(db.main, claimed) == 1
    rows = db.main.all("select ev_data, dead_reason, dead_tries from pgq.dead_event")
    assert rows == [("a", "no address", 1)]
    assert db.main.one("select pgq.revive_dead_events('q', 's')") == 1
    db.main.one("select pgq.maint_retry_events()")
    assert drain(db.main) == ["a"]


@pytest.mark.parametrize(
    ("code", "query"),
    [
        ("PQ009", "receive('q', 's', 0)"),
        ("PQ009", "receive('q', 's', 1000000)"),
        ("PQ009", "receive('q', 's', null)"),
        ("PQ009", "receive('q', 's', 1, '0.5 s')"),
        ("PQ009", "receive('q', 's', 1, '1 year')"),
        ("PQ009", "register_shared_consumer('q', 'x', 'ev_extra1')"),
        ("PQ009", "retry('q', 's', 1, '{1}', '-1 s')"),
        ("PQ002", "receive('q', 'nobody')"),
        ("PQ020", "receive('q', 'c')"),
        ("PQ020", "register_shared_consumer('q', 's', 'type')"),
        ("PQ025", "done_receive('q', 's', 77)"),
        ("PQ020", "next_batch('q', 's')"),
    ],
)
def test_bad_calls_are_refused(db: Database, code: str, query: str) -> None:
    shared(db, "a")
    db.main.one("select pgq.register_consumer('q', 'c')")
    db.main.one("select pgq.next_batch('q', 'c')")
    db.main.one("select pgq.open_batch('q', 'c')")
    with refused(code):
        db.main.all(f"select pgq.{query}")
    assert drain(db.main) == ["a"]


def test_states_are_no_tokens(db: Database) -> None:
    shared(db, "a1", "a2", "b1", "c1", key="extra1")
    _, delayed, returned = (receive(db.main) for _ in range(3))
    insert(db.main, "d1", "e1")
    receive(db.main)
    assert call(db.main, "retry", delayed, "1 hour") == 1
    assert call(db.main, "release", returned) == 1
    states = {token for (token,) in db.main.all(TOKENS) if token <= 0}
    assert states == {0, -1, -2, -3}
    for token in (*states, None):
        for name, more in (
            ("done", "null"),
            ("release", "null"),
            ("retry", "null, '1 hour'"),
            ("dead", "null, 'bad'"),
            ("extend", "'1 hour'"),
        ):
            assert db.main.one(f"select pgq.{name}('q', 's', %s, {more})", token) == 0
    assert db.main.one(LEFT) == 6
    assert db.main.one("select count(*) from pgq.dead_event") == 0


def test_unregistered_consumer_leaves_nothing(db: Database) -> None:
    shared(db, *"abab", key="extra1")
    db.main.one("select pgq.hold('q', 's', 'host:1')")
    claimed = receive(db.main)
    assert db.main.one("select pgq.unregister_consumer('q', 's')") == 1
    for table in ("front", "inflight", "last_run", "holder", "piece"):
        assert db.main.one(f"select count(*) from pgq.{table}") == 0
    with refused("PQ002"):
        done(db.main, claimed)


def test_consumer_that_runs_does_not_become_shared(db: Database) -> None:
    db.queue()
    consumer = db.open()
    register = "select pgq.set_consumer_mode('q', 'c', 'shared')"
    lock = "select pg_advisory_lock(7366514, sub_id) from pgq.registration where sub_queue = 1"
    db.main.insert("a")
    db.main.tick()
    batch = consumer.next()
    with refused("PQ021"):
        db.main.one(register)
    assert consumer.data(batch) == ["a"]
    consumer.finish(batch)
    consumer.one(lock)
    with refused("PQ021"):
        db.main.one(register)
    consumer.one("select pg_advisory_unlock_all()")
    assert db.main.one(register) == 1


def test_consumer_that_seeks_begins_there(db: Database) -> None:
    shared(db, "a", "b", "c")
    start = db.main.one("select min(tick_id) from pgq.tick")
    claimed = receive(db.main, 2)
    assert done(db.main, claimed[:1]) == 1
    db.main.one("select pgq.seek_consumer('q', 's', %s)", start)
    assert done(db.main, claimed[1:]) == 0
    assert drain(db.main) == ["a", "b", "c"]


def test_done_receive_ends_one_claim_and_makes_the_next(db: Database) -> None:
    shared(db, "a", "b")
    query = "select ev_id, ev_data, token from pgq.done_receive('q', 's', %s, %s)"
    ((first, found, token),) = db.main.all(query, None, None)
    assert found == "a"
    ((second, found, other),) = db.main.all(query, token, [first])
    assert found == "b"
    with refused("PQ025"):
        db.main.all(query, token, [first])
    assert db.main.all(query, other, [second]) == []
    assert db.main.one(LEFT) == 0


CANCEL = "select state from pgq.cancel_event('q', array[%s::bigint]) where consumer_name = 's'"


def test_event_that_nobody_has_claimed_is_cancelled(db: Database) -> None:
    shared(db, "a1", "b1", "b2", "b3", "c1", key="extra1")
    ids = {data: id_ for id_, data in db.main.all("select ev_id, ev_data from pgq.event_1")}
    claimed = receive(db.main)
    assert data(claimed) == ["a1"]
    states = [db.main.one(CANCEL, ids[each]) for each in ("a1", "b1", "b2", "b2")]
    assert states == ["delivered", "cancelled", "cancelled", "cancelled"]
    insert(db.main, "d1")
    new = db.main.one("select max(ev_id) from pgq.event_1")
    assert db.main.one(CANCEL, new) == "cancelled"
    assert sorted(drain(db.main)) == ["b3", "c1"]
    assert db.main.one(CANCEL, ids["c1"]) == "delivered"


def test_event_of_a_piece_is_cancelled(db: Database) -> None:
    shared(db)
    db.main.run(BULK.format(1, 5000))
    first = receive(db.main)
    last = db.main.one("select max(ev_id) from pgq.event_1")
    assert db.main.one(CANCEL, last) == "cancelled"
    assert done(db.main, first) == 1
    assert "5000" not in drain(db.main, 1000)


@pytest.mark.parametrize("bulk", [0, 5000])
def test_repaired_queue_goes_on_with_what_is_in_flight(db: Database, bulk: int) -> None:
    shared(db, "done", "claimed", "delayed", "held", "copied")
    holder = db.main.one("select pgq.hold('q', 's', 'host:1')")
    claimed = receive(db.main, 5)
    assert done(db.main, claimed[:1]) == 1
    assert call(db.main, "retry", claimed[2:3], "1 hour") == 1
    assert call(db.main, "release", claimed[3:4]) == 1
    assert data(receive(db.main, holder=holder)) == ["held"]
    for table in (1, 2, 0):
        follow(db)
        assert db.main.rotate() == table
    insert(db.main, "done too")
    assert drain(db.main) == ["done too"]
    db.main.run(BULK.format(1, bulk))
    big = receive(db.main, 100)
    assert len(big) == bool(bulk) * 100
    db.main.one("select pgq.repair_queue('q')")
    insert(db.main, "new")
    assert (done(db.main, big) if big else 0) == 0
    db.main.run(SOON)
    found = drain(db.main, 1000)
    numbers = {str(number) for number in range(1, bulk + 1)}
    assert sorted(set(found) - numbers) == ["claimed", "copied", "delayed", "held", "new"]
    assert len(found) == 5 + bulk


def test_piece_whose_events_were_all_cancelled_is_passed(db: Database) -> None:
    shared(db)
    db.main.run(BULK.format(1, 5000))
    first = receive(db.main)
    last = "(select max(ev_id) >> 10 from pgq.event_1)"
    ids = f"array(select ev_id from pgq.event_1 where ev_id >> 10 = {last})"
    db.main.one(f"select count(*) from pgq.cancel_event('q', {ids})")
    assert done(db.main, first) == 1
    found = drain(db.main, 1000)
    assert len(found) == len(set(found)) < 5000


def test_parts_of_one_run_are_ended_at_once(db: Database) -> None:
    shared(db, "a", "b", "c")
    claimed = receive(db.main, 3)
    ended = db.behind(
        lambda session: done(session, claimed[:1]),
        "select pgq.done('q', 's', %s, array[%s::bigint])",
        claimed[1].token,
        claimed[1].id,
    )
    assert ended == 1
    assert db.main.all("select run_ids from pgq.inflight") == [([claimed[2].id],)]


COPIES = """
    alter function pgq.lock_truncation_mark() rename to lock_truncation_mark_itself;
    create function pgq.lock_truncation_mark() returns void language plpgsql
    set lock_timeout = 0 as $$ begin
    {}
    perform pgq.lock_truncation_mark_itself(); end $$"""


def test_event_that_comes_in_flight_during_a_rotation_is_copied(db: Database) -> None:
    """As by a refill of a consumer that is detached meanwhile."""
    shared(db, "a")
    receive(db.main)
    for table in (1, 2):
        follow(db)
        assert db.main.rotate() == table
    follow(db)
    db.main.run("create table kept as select * from pgq.inflight")
    db.main.run("delete from pgq.inflight")
    rotation = db.open()
    with db.held(rotation, COPIES) as gate:
        rotates = rotation.later("select pgq.maint_rotate_tables_step1('q')")
        gate.wait_for_arrival()
        db.main.run("insert into pgq.inflight select * from kept")
        gate.open()
        assert rotates.result(timeout=30) == 0
    assert db.main.one("select count(*) from pgq.event_1") == 0
    assert db.main.all("select ev_data from pgq.inflight_copy") == [("a",)]


NEXT_FRONT = """
    alter function pgq.next_front(pgq.registration, pgq.front, int) rename to next_front_itself;
    create function pgq.next_front(
        s pgq.registration, f pgq.front, i_events int, out snapshot txid_snapshot, out seq bigint,
        out tick bigint, out is_tick boolean)
    language plpgsql as $$ begin
    {}
    select n.* into snapshot, seq, tick, is_tick from pgq.next_front_itself(s, f, i_events) n;
    end $$"""
DETACH = "update pgq.registration set sub_detached = now()"


def test_detached_consumer_gets_nothing(db: Database) -> None:
    shared(db, "a")
    receiver = db.open()
    with db.held(receiver, NEXT_FRONT) as gate:
        receives = receiver.later("select pgq.receive('q', 's')")
        gate.wait_for_arrival()
        db.main.run(DETACH)  # and then truncate what the consumer has not read
        gate.open()
        with refused("PQ024"):
            receives.result(timeout=30)
    with refused("PQ024"):
        receive(db.main)


def test_detached_consumer_gets_nothing_that_is_in_flight(db: Database) -> None:
    shared(db, "a")
    call(db.main, "release", receive(db.main))
    db.main.run(DETACH)
    with refused("PQ024"):
        receive(db.main)


@pytest.mark.parametrize(
    "ahead",
    [
        "update pgq.tick set tick_snapshot = '9000000:9000000:'",
        "update pgq.front set front_snapshot = '9000000:9000000:'",
    ],
)
def test_queue_that_was_moved_is_repaired_first(db: Database, ahead: str) -> None:
    shared(db, "a")
    db.main.run(f"{ahead}; update pgq.queue set queue_system_id = 1")
    with refused("PQ012"):
        receive(db.open())


def test_tick_that_is_older_than_the_front_is_no_step(db: Database) -> None:
    shared(db, *"abcd")
    db.main.tick()
    insert(db.main, "e")
    drain(db.main)
    db.main.run("update pgq.front set front_seq = 0, front_tick = 0")
    is_tick = """
        select n.is_tick from pgq.registration r
         cross join (select * from pgq.front order by front_no desc limit 1) f
         cross join lateral pgq.next_front(r, f, 1) n where r.sub_mode = 'shared'"""
    assert db.main.one(is_tick) is False


def test_seek_gives_up_what_a_claim_splits_off_meanwhile(db: Database) -> None:
    shared(db, "a", "b", "c")
    assert call(db.main, "release", receive(db.main, 3)) == 3
    start = db.main.one("select min(tick_id) from pgq.tick where tick_queue = 1")
    db.behind(lambda session: receive(session, 1), "select pgq.seek_consumer('q', 's', %s)", start)
    assert db.main.one(LEFT) == 0


def test_unregistering_waits_for_a_refill(db: Database) -> None:
    shared(db, "a", "b")
    db.behind(receive, "select pgq.unregister_consumer('q', 's')")
    for table in ("front", "inflight"):
        assert db.main.one(f"select count(*) from pgq.{table}") == 0


def test_released_suspects_stay_suspects(db: Database) -> None:
    shared(db, "a")
    end_lease(db, receive(db.main))
    assert call(db.main, "release", receive(db.main)) == 1
    assert db.main.one("select suspect from pgq.receive('q', 's')") is True
