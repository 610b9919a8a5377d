"""Dead events are revived and deleted once, in short transactions, and no others with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session


CHANGES = ("revive_dead_events", "delete_dead_events")
LIST = "select array_agg(ev_id order by ev_id) from pgq.get_dead_events('q', %s)"
# Of the consumer c, by id: type, class, and how many hours ago it died.
DEAD = [("a", "E", 5), ("b", "E", 4), (None, None, 3), ("a", None, 2), ("b", "F", 1)]


def _made_dead(db: Database) -> Session:
    """Make the events of DEAD dead for the consumer c, and for d too."""
    db.queue(consumers=("c", "d"))
    for type_, *_ in DEAD:
        db.main.one("select pgq.insert_event('q', %s, 'x')", type_)
    db.main.tick()
    for consumer in ("c", "d"):
        batch = db.main.next(consumer)
        events = db.main.events(batch)
        db.main.one(
            "select pgq.event_dead(%s, %s::int8[], %s::int8[], %s, %s)",
            batch,
            [event.id for event in events],
            [event.txid for event in events],
            ["why"] * len(DEAD),
            [error for _, error, _ in DEAD],
        )
        db.main.finish(batch)
    for number, (*_, hours) in enumerate(DEAD, 1):
        db.main.one(
            "update pgq.dead_event set dead_time = now() - make_interval(hours => %s)"
            " where ev_id = %s returning 1",
            hours,
            number,
        )
    return db.main


FILTERS = {
    "i_event_ids => '{5,2,9}'": [2, 5],
    "i_type => 'a'": [1, 4],
    "i_type => ''": [3],
    "i_error => 'E'": [1, 2],
    "i_error => ''": [3, 4],
    "i_since => now() - interval '3 h 10 min'": [3, 4, 5],
    "i_until => now() - interval '3 h 10 min'": [1, 2],
    "i_type => 'a', i_error => 'E', i_limit => 9": [1],
    "i_after => 3": [4, 5],
    "i_limit => 2": [1, 2],
    "i_limit => 2, i_after => 2": [3, 4],
    "i_limit => 0": None,
    "i_error => $$' or true --$$": None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_filters_choose_what_is_changed_and_nothing_else(db: Database, change: str) -> None:
    main = _made_dead(db)
    for filters, ids in FILTERS.items():
        main.begin()
        found = f"array_agg(ev_id order by ev_id) from pgq.get_dead_events('q', 'c', {filters})"
        assert main.one(f"select {found}") == ids or "i_limit" in filters
        changed = f"select array_agg(f) from pgq.{change}('q', 'c', {filters}) f"
        assert main.one(changed) == ids, filters
        assert main.one(LIST, "c") == [each for each in range(1, 6) if each not in (ids or [])]
        assert main.one(LIST, "d") == [1, 2, 3, 4, 5]
        revived = ids if change == "revive_dead_events" else None
        assert main.one("select array_agg(ev_id order by ev_id) from pgq.retry_queue") == revived
        main.rollback()


def test_the_newest_dead_events_are_listed_and_counted_by_type_and_error(db: Database) -> None:
    main = _made_dead(db)
    newest = "select array_agg(ev_id) from pgq.get_dead_events('q', 'c', i_limit => 2)"
    assert main.one(newest) == [5, 4]
    counts = "select ev_type, dead_error, dead_events from pgq.get_dead_event_counts('q', 'c'"
    assert main.all(f"{counts}, i_error => 'E')") == [("a", "E", 1), ("b", "E", 1)]
    main.run("update pgq.dead_event set ev_type = 'b', dead_error = 'F' where ev_id < 3")
    assert main.all(f"{counts}, i_limit => 2)") == [("b", "F", 3), ("a", None, 1)]
    main.run("update pgq.dead_event set dead_time = dead_time - ev_id * interval '1 minute'")
    last = "select last_dead_time from pgq.get_dead_event_counts('q', 'c', i_type => 'b')"
    assert main.one(last) == main.one("select max(dead_time) from pgq.dead_event")


def test_dead_event_keeps_what_was_said_of_it_and_how_often_it_was_tried(db: Database) -> None:
    db.queue()
    for data in ("plain", "error", "killer"):
        db.main.insert(data)
    db.main.tick()
    batch = db.main.next()
    db.main.one("select pgq.event_retry(%s, 1, 0)", batch)
    db.main.finish(batch)
    db.main.one("select pgq.maint_retry_events()")
    db.main.insert("error")
    db.main.tick_after("killer")
    batch = db.main.next()
    ids, txids = zip(*((event.id, event.txid) for event in db.main.events(batch)), strict=True)
    dead = "select pgq.event_dead(%s, %s, %s, %s, %s, %s, %s)"
    said: list[list[Any]] = [
        ["a", "b", None],
        [None, "E", None],
        [None, "line 2", None],
        [None, None, 7],
    ]
    for wrong in range(4):
        with refused("PQ009"):
            lists = [each[: 2 if at == wrong else 3] for at, each in enumerate(said)]
            db.main.one(dead, batch, list(ids), list(txids), *lists)
    assert db.main.one(dead, batch, list(ids), list(txids), *said) == 3
    assert db.main.one(dead, batch, list(ids), list(txids), ["again"] * 3, None, None, None) == 0
    kept = db.main.all(
        "select ev_data, dead_reason, dead_error, dead_traceback, dead_tries"
        "  from pgq.get_dead_events('q', 'c') order by ev_id"
    )
    assert kept == [
        ("plain", "a", None, None, 2),
        ("error", "b", "E", "line 2", 1),
        ("killer", "", None, None, 7),
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_two_sessions_divide_the_dead_events_and_neither_waits(db: Database, change: str) -> None:
    main, other = _made_dead(db), db.open()
    main.begin()
    assert main.one(f"select count(*) from pgq.{change}('q', 'c', i_limit => 2)") == 2
    other.run("set lock_timeout = '200ms'")
    assert other.one(f"select array_agg(f) from pgq.{change}('q', 'c', i_limit => 2) f") == [3, 4]
    main.commit()
    assert main.one(LIST, "c") == [5]
    revived = main.one("select count(*) from pgq.retry_queue")
    assert revived == (4 if change == "revive_dead_events" else 0)


def test_revived_event_is_delivered_once_with_its_retries_counted_anew(db: Database) -> None:
    main = _made_dead(db)
    main.one("select pgq.revive_dead_events('q', 'c', i_type => 'a')")
    main.one("select pgq.maint_retry_events()")
    main.tick()
    batch = main.next()
    found = main.all("select ev_id, ev_retry, ev_type from pgq.get_batch_events(%s)", batch)
    assert found == [(1, None, "a"), (4, None, "a")]
    assert main.next("d") is not None
    assert main.events(main.next("d")) == []


def test_dead_events_are_walked_through_in_bounded_steps_from_the_newest(db: Database) -> None:
    main = _made_dead(db)
    main.run("delete from pgq.dead_event where ev_id = 3")
    bounds = "select * from pgq.get_dead_event_bounds('q', 'c', %s, %s)"
    assert main.all(bounds, None, 2) == [(4, 5, 2, True)]
    assert main.all(bounds, 4, 2) == [(1, 2, 2, False)]
    assert main.all(bounds, None, 4) == [(1, 5, 4, False)]
    assert main.all(bounds, 1, 2) == [(None, None, 0, False)]
    ids = "select array_agg(ev_id) from pgq.get_dead_events('q', 'c', {})"
    assert main.one(ids.format("i_after => 1, i_before => 5")) == [4, 2]
    assert main.one(ids.format("i_after => 1, i_type => 'b', i_limit => 1")) == [5]
    counts = "select sum(dead_events) from pgq.get_dead_event_counts('q', 'c', {})"
    assert main.one(counts.format("i_after => 1, i_before => 5")) == 2
    for wrong in (None, 0):
        with refused("PQ009"):
            main.one(bounds, None, wrong)
    for function in ("get_dead_event_bounds", "get_dead_events", "revive_dead_events"):
        with refused("PQ002"):
            main.one(f"select pgq.{function}('q', 'nope')")


def test_step_reads_its_own_dead_events_and_no_others(db: Database) -> None:
    main = _made_dead(db)
    main.run(
        "insert into pgq.dead_event (dead_reason, dead_tries, ev_queue, ev_owner, ev_id, ev_time,"
        " ev_txid)"
        " select '', 1, ev_queue, ev_owner, ev_id + n, ev_time, ev_txid"
        "   from pgq.dead_event, generate_series(5, 20000) n where ev_id = 5"
    )
    main.run("analyze pgq.dead_event")
    first = main.one("select first_id from pgq.get_dead_event_bounds('q', 'c', i_limit => 100)")
    for call in (
        "get_dead_event_bounds('q', 'c', i_limit => 100)",
        f"get_dead_event_counts('q', 'c', i_after => {first - 1})",
        f"get_dead_events('q', 'c', i_type => 'none', i_after => {first - 1})",
    ):
        assert [main.pages(f"select * from pgq.{call}") for _ in range(2)][1] < 200


RETRY = """
    select pgq.event_retry(%s, array_agg(ev_id order by ev_id), array_agg(ev_txid order by ev_id),
        '{0,30 s,30 min,2 h,9 h,2 days}'::interval[])
      from pgq.get_batch_events(%s)"""
COUNTS = "select due_within::text, retry_events from pgq.get_retry_counts('q', %s, %s)"


def test_each_event_is_counted_where_it_is_due(db: Database) -> None:
    db.queue()
    db.main.one("select pgq.register_consumer('q', 'other')")
    for number in range(6):
        db.main.insert(str(number))
    db.main.tick()
    for consumer in ("c", "other"):
        batch = db.main.next(consumer)
        assert db.main.one(RETRY, batch, batch) == 6
    rows = [("00:00:00", 1), ("00:01:00", 1), ("01:00:00", 1), ("1 day", 2), (None, 1)]
    assert db.main.all(COUNTS, "c", None) == rows
    assert sum(count for _, count in db.main.all(COUNTS, "c", 4)) == 4
    with refused("PQ002"):
        db.main.all(COUNTS, "nobody", None)
