"""Parked events: per key in order, once, behind the failed one, whatever happens meanwhile."""

from __future__ import annotations

from tests.guarantees.everything import DEAD
from tests.guarantees.parking import (
    DUE,
    TAKE,
    insert_keyed,
    keyed,
    park,
    parked,
    parked_keys,
    set_aside,
    take,
    taken,
)
from tests.guarantees.sessions import Database, refused
from tests.support.gates import wait_until_blocked


def test_failed_event_and_those_behind_it_wait_and_come_in_order(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "b1", "a2", "a3", "b2"))
    assert parked(main) == ["a1", "a2", "a3"]
    assert main.deliver() == []
    assert taken(main) == ["a1"]
    assert parked(main) == ["a2", "a3"]
    assert taken(main) == ["a2", "a3"]
    assert taken(main) == []
    assert parked(main) == []


def test_order_is_that_of_the_batches_and_not_of_the_ids(db: Database) -> None:
    db.queue()
    late = db.open()
    late.begin()
    late.insert("a2")
    insert_keyed(db.main, "a1")
    first = db.main.next()
    assert db.main.data(first) == ["a1"]
    park(db.main, first, "a1")
    db.main.finish(first)
    late.commit()
    insert_keyed(db.main, "a3")
    second = db.main.next()
    assert parked_keys(db.main, second, "abc") == {"a"}
    events = db.main.events(second)
    assert [event.data for event in events] == ["a2", "a3"]
    ids, txids = [event.id for event in events][::-1], [event.txid for event in events][::-1]
    statement = "select pgq.event_park(%s, %s, %s, '{a,a}', '{null,null}')"
    assert db.main.one(statement, second, ids, txids) == 2
    db.main.finish(second)
    assert [*taken(db.main), *taken(db.main)] == ["a1", "a2", "a3"]


def test_head_that_fails_again_keeps_its_place_and_counts_its_retries(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    batch = take(main)
    assert park(main, batch, "a1", after="1 h") == 1
    assert main.data(batch) == []
    main.finish(batch)
    assert taken(main) == []
    assert main.all("select ev_data, ev_retry, park_error from pgq.parked order by park_no") == [
        ("a1", 2, "E"),
        ("a2", None, None),
    ]
    assert main.one("select pgq.next_parked('q', 'c') > '59 min'")
    assert main.one("select pgq.retry_parked('q', 'c', '{b}')") == 0
    assert main.one("select pgq.retry_parked('q', 'c')") == 1
    assert [*taken(main), *taken(main)] == ["a1", "a2"]


def test_nothing_behind_a_failed_event_is_finished_whatever_the_caller_says(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2", "a3", "a4", "b1"))
    assert taken(main) == ["a1"]
    batch = take(main)
    events = {event.data: event for event in main.events(batch)}
    assert list(events) == ["a2", "a3", "a4"]
    failed = events["a3"]
    statement = "select pgq.event_park(%s, %s, %s, '{a}', '{0 s}', '{E}')"
    main.one(statement, batch, [failed.id], [failed.txid])
    assert main.data(batch) == ["a2"]
    main.finish(batch)
    assert parked(main) == ["a3", "a4"]
    assert [*taken(main), *taken(main)] == ["a3", "a4"]


def test_events_that_the_caller_leaves_stay_in_their_order_and_their_key_is_told(
    db: Database,
) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "a2", "a3", "b1", "b2"))
    taken(main)
    batch = take(main)
    assert parked_keys(main, batch, "ab") == set()
    (second, *_) = main.events(batch)
    left = "select pgq.event_park(%s, %s, %s, '{a}', '{null}')"
    main.one(left, batch, [second.id], [second.txid])
    assert parked_keys(main, batch, "ab") == {"a"}
    assert main.data(batch) == ["b2"]
    main.finish(batch)
    assert main.all("select ev_data, ev_retry, park_error from pgq.parked order by 1") == [
        ("a2", None, None),
        ("a3", None, None),
    ]
    assert taken(main) == ["a2", "a3"]


def test_failed_event_behind_one_that_is_not_finished_waits_for_it(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2", "a3"))
    taken(main)
    park(main, take(main), "a3")
    main.one("select pgq.register_consumer_at('q', 'c', %s)", main.tick())
    batch = take(main)
    park(main, batch, "a2", after="1 h")
    main.finish(batch)
    assert taken(main) == []
    main.one("select pgq.retry_parked('q', 'c')")
    assert [*taken(main), *taken(main)] == ["a2", "a3"]


def test_failed_head_comes_alone_and_a_free_one_with_its_followers(db: Database) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "a2", "a3", "a4", "b1", "b2", "b3"))
    assert taken(main) == ["a1", "b1"]
    assert taken(main, limit=2) == ["a2", "a3"]
    assert sorted(taken(main, limit=3)) == ["a4", "b2", "b3"]


def test_dead_head_frees_its_key_and_is_kept_like_any_dead_event(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    batch = take(main)
    (event,) = main.events(batch)
    dead = "select pgq.event_dead(%s, %s, %s, '{why}', '{E}', '{trace}')"
    assert main.one(dead, batch, [event.id], [event.txid]) == 1
    main.finish(batch)
    assert taken(main) == ["a2"]
    kept = "select ev_data, dead_error, dead_reason, dead_traceback, dead_tries from pgq.dead_event"
    assert main.all(kept) == [("a1", "E", "why", "trace", 2)]
    main.one("select pgq.revive_dead_events('q', 'c')")
    main.one("select pgq.maint_retry_events()")
    main.one("select pgq.maint_retry_events()")
    assert main.deliver() == ["a1"]


def test_open_batch_of_parked_events_is_given_again_and_no_other_beside_it(db: Database) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "a2", "b1"))
    insert_keyed(main, "c1")
    batch = take(main)
    other = db.open()
    assert take(other) is None
    assert other.next() == batch
    assert other.data(batch) == ["a1", "b1"]
    assert other.finish(batch) == 1
    assert main.finish(batch) == 0
    assert other.drain() == ["c1"]


def test_parked_event_is_retried_by_a_consumer_that_does_not_park(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    batch = take(main)
    assert main.one("select pgq.batch_retry(%s, 0)", batch) == 1
    main.finish(batch)
    assert taken(main) == ["a2"]
    main.one("select pgq.maint_retry_events()")
    assert main.deliver() == ["a1"]


def test_part_of_parked_events_ends_those_that_the_caller_names(db: Database) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "b1", "a2", "b2", "a3", "b3"))
    taken(main)
    batch = take(main)
    events = main.events(batch)
    assert [event.data for event in events] == ["a2", "a3", "b2", "b3"]
    assert main.one("select pgq.finish_part(%s, %s)", batch, events[2].id) == 1
    assert main.data(batch) == ["a2", "a3", "b3"]
    assert main.one("select pgq.finish_part(%s, null, %s)", batch, [events[3].id]) == 1
    assert main.data(batch) == parked(main) == ["a2", "a3"]
    for wrong in ("999", "null, '{999}'"):
        with refused("PQ009"):
            main.one(f"select pgq.finish_part(%s, {wrong})", batch)
    statement = "select pgq.event_park(%s, %s, %s, '{a}', '{0 s}', '{E}')"
    main.one(statement, batch, [events[0].id], [events[0].txid])
    assert main.one("select pgq.finish_part(%s, %s)", batch, events[1].id) == 1
    assert parked(main) == ["a2", "a3"]
    main.finish(batch)
    assert [*taken(main), *taken(main)] == ["a2", "a3"]


def test_effects_and_the_end_of_a_parked_event_are_one_transaction(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    main.begin()
    assert taken(main) == ["a1"]
    main.rollback()
    assert parked(main) == ["a1", "a2"]
    main.begin()
    assert taken(main) == ["a1"]
    main.commit()
    assert parked(main) == ["a2"]


def test_two_sessions_that_take_at_once_do_not_both_get_an_event(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    other = db.open()
    main.begin()
    batch = take(main)
    call = other.later(TAKE, 1000)
    wait_until_blocked(main.connection, other.pid)
    main.commit()
    assert call.result() is None
    assert other.next() == batch


def test_keys_are_listed_with_their_heads(db: Database) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "a2", "b1"), after="1 h")
    listed = (
        "select park_key, events, ev_data, park_error, park_after > now() from pgq.get_parked"
        "('q', 'c'{})"
    )
    assert main.all(listed.format("")) == [("a", 2, "a1", "E", True), ("b", 1, "b1", "E", True)]
    assert main.all(listed.format(", i_limit => 1, i_count => 1")) == [("a", 1, "a1", "E", True)]
    assert main.all(listed.format(", '{b,c}'")) == [("b", 1, "b1", "E", True)]
    assert main.one(DUE) == ["a1", "b1"]


def test_deleted_head_frees_its_key_unless_a_handler_may_have_it(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    deleted = "select array_agg(d) from pgq.delete_parked('q', 'c', '{a}') d"
    batch = take(main)
    assert main.one(deleted) is None
    park(main, batch, "a1", after="1 h")
    main.finish(batch)
    assert main.one(deleted) == [1]
    assert taken(main) == ["a2"]
    assert main.one("select pgq.next_parked('q', 'c')") is None


def test_what_makes_no_sense_is_refused(db: Database) -> None:
    main = keyed(db, "a1", "a2")
    batch = main.next()
    (event, _) = main.events(batch)
    statement = "select pgq.event_park(%s, %s, %s, %s, %s)"
    for keys, delays in ((["a", "b"], ["0 s"]), (["a"], []), ([None], ["0 s"])):
        with refused("PQ009"):
            main.one(statement, batch, [event.id], [event.txid], keys, delays)
    with refused("PQ004"):
        main.one(statement, batch, [999], [event.txid], ["a"], ["0 s"])
    with refused("PQ003"):
        main.one(statement, 999, [event.id], [event.txid], ["a"], ["0 s"])
    for limit in (0, 1001):
        with refused("PQ009"):
            take(main, limit)
    with refused("PQ002"):
        main.one("select pgq.next_parked('q', 'nobody')")


def test_event_parked_already_under_another_key_leaves_no_key_without_a_head(db: Database) -> None:
    main = keyed(db, "a1")
    start = main.one("select min(tick_id) from pgq.get_tick_info('q')")
    batch = main.next()
    (event,) = main.events(batch)
    main.one(DEAD, batch, event.id, event.txid)
    main.finish(batch)
    main.one("select pgq.seek_consumer('q', 'c', %s)", start)
    batch = main.next()
    park(main, batch, "a1", after="1 h")
    main.finish(batch)
    main.one("select pgq.revive_dead_events('q', 'c')")
    main.one("select pgq.maint_retry_events()")
    insert_keyed(main, "a2")
    batch = main.next()
    events = main.events(batch)
    assert [event.data for event in events] == ["a1", "a2"]
    ids, txids = [event.id for event in events], [event.txid for event in events]
    statement = "select pgq.event_park(%s, %s, %s, '{n,n}', '{0 s,null}')"
    assert main.one(statement, batch, ids, txids) == 1
    main.finish(batch)
    assert taken(main) == ["a2"]
    assert main.one("select pgq.retry_parked('q', 'c')") == 1
    assert taken(main) == ["a1"]


def test_consumer_that_parks_is_plain(db: Database) -> None:
    main = keyed(db, "a1")
    batch = main.next()
    park(main, batch, "a1")
    main.finish(batch)
    with refused("PQ020"):
        main.all("select batch_id from pgq.take_part('q', 'c', 'w')")
    assert taken(main) == ["a1"]
