"""Parked events when their consumer moves or leaves, and when tables rotate or are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.guarantees.parking import (
    DUE,
    PARK,
    insert_keyed,
    park,
    parked,
    parked_keys,
    set_aside,
    take,
    taken,
)
from tests.guarantees.sessions import RR, Database, Session, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


DELETE = "select array_agg(d) from pgq.delete_parked('q', 'c', '{a}') d"


def test_key_that_is_parked_survives_rotations_and_holds_none_back(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"), after="1 day")
    for turn in range(8):
        insert_keyed(main, f"b{turn}")
        assert main.drain() == [f"b{turn}"]
        main.tick()
        main.drain()
        assert main.rotate() == (turn + 1) % 3
    main.one("select pgq.retry_parked('q', 'c')")
    assert [*taken(main), *taken(main)] == ["a1", "a2"]


def test_consumer_that_moves_back_forgets_what_comes_again_and_nothing_else(db: Database) -> None:
    main = set_aside(db, "a1", "b1", data=("a1", "b1"), after="1 day")
    between = main.tick()
    main.drain()
    insert_keyed(main, "a2", "b2", "c1")
    batch = main.next()
    park(main, batch, "a2", "b2")
    main.finish(batch)
    assert parked(main) == ["a1", "a2", "b1", "b2"]
    main.one("select pgq.register_consumer_at('q', 'c', %s)", between)
    assert parked(main) == ["a1", "b1"]
    assert main.drain() == ["a2", "b2", "c1"]
    first = main.one("select min(tick_id) from pgq.get_tick_info('q')")
    main.one("select pgq.register_consumer_at('q', 'c', %s)", first)
    assert parked(main) == []
    assert main.drain() == ["a1", "b1", "a2", "b2", "c1"]


@pytest.mark.alone
def test_repair_leaves_parked_events_where_they_are_among_the_ticks(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1",), after="1 day")
    reached = main.one("select pos_last_tick from pgq.current_position")
    main.one("select pgq.register_consumer_at('q', 'back', %s)", reached - 1)
    insert_keyed(main, "a2", "b1")
    main.one("select pgq.repair_queue('q')")
    assert parked(main) == ["a1"]
    batch = main.next()
    park(main, batch, "a2")
    main.finish(batch)
    main.one("select pgq.register_consumer_at('q', 'c', %s)", reached)
    assert parked(main) == ["a1"]
    assert main.drain() == ["a2", "b1"]
    main.one("select pgq.register_consumer_at('q', 'c', %s)", reached - 1)
    assert parked(main) == []


def test_consumer_that_moves_on_keeps_what_is_parked(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    main.one("select pgq.register_consumer_at('q', 'c', %s)", main.tick())
    assert [*taken(main), *taken(main)] == ["a1", "a2"]


def test_consumer_that_leaves_takes_its_parked_events_with_it(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2"))
    main.one("select pgq.unregister_consumer('q', 'c')")
    assert parked(main) == []


def failed_behind(db: Database, after: str = "0 s") -> Session:
    """Park a2, a3, a4 of one key: a4 has failed, and its batch was lost before a2 was handled."""
    main = set_aside(db, "a1", data=("a1", "a2", "a3", "a4"))
    taken(main)
    park(main, take(main), "a4", after=after)
    move_on(main)
    return main


def move_on(session: Session) -> None:
    """Drop the open batch of the consumer; its parked events stay."""
    session.one("select pgq.register_consumer_at('q', 'c', %s)", session.tick())


def test_only_the_first_event_of_a_key_is_deleted_and_the_next_one_is_taken(db: Database) -> None:
    main = failed_behind(db)
    assert main.one(DELETE) == [2]
    assert parked(main) == taken(main) == ["a3", "a4"]


def test_failed_event_is_not_deleted_while_a_handler_has_the_first_of_its_key(
    db: Database,
) -> None:
    main = failed_behind(db)
    batch = take(main, limit=1)
    assert main.data(batch) == ["a2"]
    assert main.one(DELETE) is None
    main.finish(batch)
    assert taken(main) == ["a3", "a4"]


def test_key_has_one_head_in_whatever_order_its_events_are_finished(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2", "a3", "a4", "a5"))
    taken(main)
    batch = take(main)
    assert main.one("select pgq.finish_part(%s, null, '{3}')", batch) == 1
    assert main.one(DUE) == ["a2"]
    assert main.one("select pgq.finish_part(%s, null, '{2,5}')", batch) == 1
    assert main.one(DUE) == ["a4"]
    move_on(main)
    assert taken(main) == ["a4"]


def test_failed_event_that_is_finished_before_the_head_leaves_it_the_head(db: Database) -> None:
    main = set_aside(db, "a1", data=("a1", "a2", "a3", "a4"))
    taken(main)
    park(main, take(main), "a3")
    move_on(main)
    batch = take(main)
    assert main.data(batch) == ["a2", "a3", "a4"]
    assert main.one("select pgq.finish_part(%s, null, '{3}')", batch) == 1
    assert main.one(DUE) == ["a2"]
    main.finish(batch)
    assert parked(main) == []


def test_failed_event_behind_the_head_is_neither_listed_nor_retried(db: Database) -> None:
    main = failed_behind(db, after="1 h")
    listed = main.all("select park_key, events, ev_data from pgq.get_parked('q', 'c')")
    assert listed == [("a", 3, "a2")]
    assert main.one("select pgq.retry_parked('q', 'c')") == 0


@pytest.mark.alone
def test_key_with_a_failed_event_behind_its_head_is_one_key_and_due_with_its_head(
    db: Database,
) -> None:
    main = failed_behind(db)
    assert main.one("select parked_keys from pgq.get_consumer_counts()") == 1
    batch = take(main, limit=1)
    park(main, batch, "a2", after="1 h")
    main.finish(batch)
    assert main.one("select pgq.next_parked('q', 'c') > '59 min'")
    assert main.one("select pgq.get_waiting_since('q', 'c')") is None


GO = {
    "deleted": "select count(*) from pgq.delete_parked('q', 'c', '{a}')",
    "cancelled": "select count(*) from pgq.cancel_event('q', '{1}')",
    "skipped": "select count(*) from pgq.skip_event('q', 'c', '{1}')",
}


def follow(session: Session, batch: int | None) -> int:
    """Park the one event of a batch behind its key, without handling it."""
    (event,) = session.events(batch)
    return int(session.one(PARK, batch, [event.id], [event.txid], ["a"], [None], [None]))


@pytest.mark.parametrize("goes", GO.values(), ids=GO)
def test_no_event_is_parked_behind_a_head_that_is_gone(db: Database, goes: str) -> None:
    """Without a head none of its key would ever come."""
    main = set_aside(db, "a1", data=("a1",), after="1 h")
    insert_keyed(main, "a2")
    batch, other = main.next(), db.open()
    other.begin(RR)
    assert parked_keys(other, batch, "a") == {"a"}
    assert main.one(goes) == 1
    with refused("40001"):
        follow(other, batch)
    other.rollback()
    other.begin(RR)
    assert parked_keys(other, batch, "a") == set()
    assert follow(other, batch) == 1
    other.finish(batch)
    other.commit()
    assert taken(main) == ["a2"]
