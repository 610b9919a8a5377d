"""The history: a row a minute, in tables that are truncated in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.guarantees.seek import ticked
from tests.guarantees.sessions import RR, refused

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MAINT = "select pgq.maint_history()"
POINTS = """
    select round(ev_per_sec::numeric, 1)::float8, round(extract(epoch from lag)::numeric, -1)::int,
           pending_events, retry_events, dead_events
      from pgq.get_history('q', i_consumer_name => %s)
"""
ROWS = "select hist_time from pgq.history order by hist_time"
TABLE = "select right(tableoid::regclass::text, 1)::int from pgq.history order by hist_time"
SPAN = "select max(hist_time) - min(hist_time), count(*) from pgq.history"


def written(db: Database, after: str = "1 minute") -> int:
    """Let some time pass, and call the function: 1 if it wrote a row."""
    db.main.run(f"update pgq.history set hist_time = hist_time - interval '{after}'")
    return int(db.main.one(MAINT))


def points(db: Database, consumer: str | None = None) -> list[tuple[Any, ...]]:
    """Return the history of the queue or a consumer, without times."""
    return db.main.all(POINTS, consumer)


def dead(db: Database, consumer: str = "c") -> None:
    """Give up the first event of the next batch, and retry the second one."""
    batch = db.main.next(consumer)
    first, second = db.main.events(batch)[:2]
    db.main.one(
        "select pgq.event_dead(%s, %s::int8[], %s::int8[], '{why}')",
        batch,
        [first.id],
        [first.txid],
    )
    db.main.one("select pgq.event_retry(%s, %s, 1000)", batch, second.id)
    db.main.finish(batch)


def test_history_has_rates_lags_and_counts_also_of_what_did_not_change(db: Database) -> None:
    db.queue(consumers=("c", "d"))
    db.queue("idle")
    db.main.run("update pgq.tick set tick_time = now() - interval '5 min' where tick_id = 1")
    assert written(db) == 1
    ticked(db.main, "a" * 60)
    assert written(db) == 1
    dead(db)
    assert written(db) == 1
    assert written(db) == 1
    assert points(db, "c") == [
        (None, 0, 0, 0, 0),
        (1.0, 300, 60, 0, 0),
        (0.0, 0, 0, 1, 1),
        (0.0, 0, 0, 1, 1),
    ]
    assert [point[1:4] for point in points(db, "d")] == [(0, 0, 0), *[(300, 60, 0)] * 3]
    dead(db, "d")
    assert written(db) == 1
    assert points(db)[-2:] == [(0.0, 300, 60, 1, 1), (0.0, 0, 0, 2, 2)]
    assert db.main.one("select count(*) from pgq.get_history('idle')") == 5
    with refused("PQ001"):
        db.main.one("select pgq.get_history('nope')")
    with refused("PQ002"):
        points(db, "nope")


def test_history_since_a_time_knows_what_was_before(db: Database) -> None:
    db.queue()
    written(db)
    ticked(db.main, "a")
    for _ in range(3):
        written(db)
    since = "select pending_events, ev_per_sec from pgq.get_history('q', now() - interval '90 s')"
    assert db.main.all(since) == [(1, 0), (1, 0)]
    assert len(points(db)) == 4


def test_queues_and_consumers_begin_where_they_were_made(db: Database) -> None:
    db.queue("other", consumers=())
    written(db)
    db.queue()
    written(db)
    db.main.one("select pgq.register_consumer('q', 'late')")
    written(db)
    assert [point[2] for point in points(db, "late")] == [None, 0]
    assert len(db.main.all("select * from pgq.get_history('other')")) == 3
    assert db.main.one("select bool_and(dead_events is null) from pgq.get_history('other')")
    db.main.one("select pgq.unregister_consumer('q', 'late')")
    db.main.one("select pgq.drop_queue('q', true)")
    assert written(db) == 1
    assert len(db.main.all("select * from pgq.get_history('other')")) == 4


def test_sessions_that_write_at_once_write_one_row(db: Database) -> None:
    db.queue()
    first = db.open()
    first.begin()
    assert first.one(MAINT) == 1
    assert db.main.one(MAINT) == 0
    first.commit()
    assert db.main.one(MAINT) == 0
    assert len(db.main.all(ROWS)) == 1
    assert written(db, "40 s") == 0
    assert written(db, "15 s") == 1
    db.main.run(f"begin isolation level {RR}")
    assert written(db) == 0
    db.main.rollback()


def test_tables_are_truncated_in_turn_and_a_day_is_always_there(db: Database) -> None:
    db.queue()
    for hours in range(60):
        assert written(db, "1 hour") == 1
        span, rows = db.main.all(SPAN)[0]
        assert min(hours, 24) * 3600 <= span.total_seconds() + 60 <= 37 * 3600
        assert rows <= 38
    order = [number for (number,) in db.main.all(TABLE)]
    assert sorted(set(order)) == [0, 1, 2]
    assert sorted(order, key=order.index) == order


def test_reader_that_holds_the_next_table_costs_no_row(db: Database) -> None:
    db.queue()
    written(db)
    reader = db.open()
    reader.begin()
    reader.run("lock table pgq.history_1 in access share mode")
    assert written(db, "13 hours") == 1
    assert {number for (number,) in db.main.all(TABLE)} == {0}
    reader.rollback()
    assert written(db) == 1
    assert {number for (number,) in db.main.all(TABLE)} == {0, 1}


def test_clock_that_was_ahead_does_not_stop_the_history(db: Database) -> None:
    db.queue()
    written(db)
    assert written(db, "-1 day") == 1
    assert len(db.main.all(ROWS)) == 1
    assert written(db) == 1


def test_many_queues_get_a_row_less_often(db: Database) -> None:
    db.queue()
    db.main.run("insert into pgq.queue (queue_name) select n from generate_series(1, 2500) n")
    assert written(db) == 1
    assert written(db) == 0
    assert written(db) == 0
    assert written(db, "30 s") == 1
