"""Two queues in one database, with the same consumers, ids and ticks: neither changes the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.guarantees.everything import DUE, EVERYBODY, Told, go_on, take_all

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

SWAP = """
    update pgq.queue set queue_name = case queue_name when 'q' then 'other' else 'q' end;
    update pgq.cron set cron_name = case cron_name when 'e' then 'other' else 'e' end;
    select pgq.build_insert_path(null);
"""
NOT_DUE = "update pgq.delayed_event set ev_deliver_at = 'tomorrow'"
KEYS_END = "update pgq.dedup_key set dedup_until = %s"
# The tables whose rows belong to queues, or to subscriptions, by these columns.
TABLES = """
    select relname, attname from pg_attribute join pg_class on pg_class.oid = attrelid
     where relnamespace = 'pgq'::regnamespace and relkind = 'r' and atttypid = 'int'::regtype
       and attname ~ '^(queue_id|[a-z]+_(queue|sub))$'"""
OPEN = "select * from pgq.next_batch_custom('q', 'c', null, null, null)"
TICKS = """
    select tick_time, tick_event_seq from pgq.tick
     where tick_queue = 1 and tick_id = any (%s) order by tick_id desc"""
TICK = "(select min(tick_id) from pgq.get_tick_info('q'))"
AHEAD, GONE = "tick_id=9, first_tick=1, last_tick=4", "tick_id=2, first_tick=3, last_tick=4"
UNREACHED = [  # the lowest tick, the call, the error, and what it tells
    (1, "register_consumer_at('q', 'c', 9)", "PQ005", "keeps ticks 1 to 4, of"),
    (1, "register_consumer_at('q', 'c', 9)", "PQ005", "the last before this one: 4"),
    (1, "seek_consumer('q', 'c', 9)", "PQ005", "the last one before it is 4"),
    (1, "seek_consumer('q', 'c', 9)", "PQ005", AHEAD),
    (1, "pin_range('q', 'c', 4, 9)", "PQ005", ""),
    (1, "advance_subscription('q', 'c', 4, 9)", "PQ005", ""),
    (1, "get_tick_events('q', 1, 9)", "PQ005", AHEAD),
    (1, "tick_event_sql('q', 1, 9, '{}')", "PQ005", AHEAD),
    (1, "get_tick_stages('q', 1, 9)", "PQ005", AHEAD),
    (3, "register_consumer_at('q', 'c', 2)", "PQ005", "keeps ticks 3 to 4, of"),
    (3, "register_consumer_at('q', 'c', 2)", "PQ005", "the last before this one: none"),
    (3, "seek_consumer('q', 'c', 2)", "PQ016", GONE),
    (3, "get_tick_events('q', 2, 4)", "PQ016", GONE),
    (3, "reattach_consumer('q', 'late')", "PQ016", "tick_id=1, first_tick=3, last_tick=4"),
]
REPLAY = "begin_replay('q', 'plain', 'all', '-infinity', 'infinity')"
CALLS = (
    "insert_event_once('q', 'k1', '1 day', 't', 'd')",
    REPLAY,
    f"register_consumer_at('q', 'plain', {TICK})",
    "seek_consumer('q', 'plain', null, false, '-infinity')",
    "seek_consumer('q', 'coop', null, true, '-infinity')",
    f"pin_range('q', 'plain', {TICK}, {TICK} + 1)",
    "open_batch('q', 'plain')",
    "set_consumer_filter('q', 'plain', '{\"types\": [\"t\"]}')",
    "delete_dead_events('q', 'shared', '{}')",
    "revive_dead_events('q', 'keyed')",
    "register_consumer('q', 'new')",
    "set_queue_config('q', 'retention', '1 day')",
    "pause_cron('e'), pgq.resume_cron('e'), pgq.remove_cron('e')",
    "force_tick('q'), pgq.ticker('q'), pgq.maint_ticks('q')",
    "repair_queue('q')",
    "build_insert_path(null)",
    *(f"unregister_consumer('q', '{consumer}')" for consumer in EVERYBODY),
    "drop_queue('q', true)",
)


def test_two_queues_in_the_same_state_know_nothing_of_each_other(db: Database) -> None:
    main = db.main
    first = Told(db)
    main.run(NOT_DUE)
    main.all(f"select pgq.{REPLAY}")
    main.connection.execute(KEYS_END.encode(), ["yesterday"])
    main.run(SWAP)
    (queue,) = main.all("select queue_id from pgq.queue")[0]
    before = _rows(main, queue)
    owner = db.open()
    owner.begin()
    _rows(owner, queue, " for update")
    main.run("set lock_timeout = '10s'")
    second = Told(db)
    assert _rows(main, queue) == before
    delayed = f"select ev_id from pgq.delayed_event where ev_queue <> {queue}"
    assert len(main.all("select pgq.get_delayed_events('q')")) == len(main.all(delayed))
    _expect_the_rest(main, second)
    main.connection.execute(f"{KEYS_END} where dedup_queue <> {queue}".encode(), ["yesterday"])
    for call in CALLS:
        main.all(f"select pgq.{call}")
        assert _rows(main, queue) == before, call
    owner.rollback()
    main.run(SWAP)
    main.run(DUE)
    main.connection.execute(KEYS_END.encode(), ["tomorrow"])
    _expect_the_rest(main, first)


def test_row_of_a_batch_is_that_of_its_ticks(db: Database) -> None:
    """Of a new batch, of one that is open, and with a filter."""
    db.queue()
    db.main.tick_after("a", "b", "c")
    for config in (None, '{"types": ["t"]}'):
        db.main.one("select pgq.set_consumer_filter('q', 'c', %s)", config)
        opened = db.main.all(OPEN)
        assert opened == db.main.all(OPEN)
        ((batch, last, first, *_),) = opened
        (cur, prev) = db.main.all(TICKS, [first, last])
        assert opened == [(batch, last, first, cur[0], prev[0], cur[1], prev[1])]
        assert db.main.all("select pgq.batch_event_tables(%s)", batch) == [
            (f"pgq.event_1_{number}",) for number in range(3)
        ]
        assert db.main.finish(batch) == 1


def test_ticks_of_another_queue_cannot_be_reached(db: Database) -> None:
    """The neighbour has ticks 1 to 10, this queue 1 to 4."""
    db.queue(consumers=("c", "late"))
    db.main.tick_after("a", "b", "c")
    db.main.drain()
    db.main.run("update pgq.registration set sub_detached = now() where sub_consumer > 0")
    for low, call, code, told in UNREACHED:
        db.main.run(f"update pgq.queue set queue_low_tick = {low} where queue_id = 1")
        with pytest.raises(psycopg.Error) as failed:
            db.main.one(f"select pgq.{call}")
        diag = failed.value.diag
        assert diag.sqlstate == code, call
        assert told in f"{diag.message_primary} {diag.message_detail} {diag.message_hint}", call


def _rows(session: Session, queue: int, lock: str = "") -> dict[str, list[Any]]:
    """Return all rows of a queue, locked if that is asked for."""
    subs = "select sub_id from pgq.registration where sub_queue = %s"
    found = {"events": session.all(f"select t from pgq.event_{queue} t{lock}")}
    for name, key in session.all(TABLES):
        which = f"in ({subs})" if key.endswith("_sub") else "= %s"
        found[name] = session.all(f"select t from pgq.{name} t where {key} {which}{lock}", queue)
    return {name: sorted(rows) for name, rows in found.items()}


def _expect_the_rest(session: Session, told: Told) -> None:
    go_on(session, told.ids)
    for consumer in EVERYBODY:
        expected = told.to_come(consumer) - Counter(["since"])
        assert Counter(take_all(session, consumer)) == expected, consumer
