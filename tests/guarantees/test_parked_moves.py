"""Parked events when their consumer moves or leaves, and when tables rotate or are repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.guarantees.parking import insert_keyed, park, parked, set_aside, taken

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database


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
    first = main.one("select min(tick_id) from pgq.tick")
    main.one("select pgq.register_consumer_at('q', 'c', %s)", first)
    assert parked(main) == []
    assert main.drain() == ["a1", "b1", "a2", "b2", "c1"]


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
