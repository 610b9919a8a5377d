"""get_queue_metrics: what queues keep, told without reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.guarantees.sessions import RR

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database, Session

METRICS = """
    select round(extract(epoch from oldest_event_age))::int,
           round(extract(epoch from newest_event_age))::int, estimated_events, total_bytes
      from pgq.get_queue_metrics('q')
"""
MINUTES = "update pgq.tick set tick_time = clock_timestamp() - (100 - tick_id) * interval '1 min'"
LOCKED = """
    select count(*) from pg_locks
    where relation in (select inhrelid from pg_inherits where inhparent = 'pgq.event_1'::regclass)
"""


def metrics(session: Session) -> tuple[Any, ...]:
    """Return the ages in seconds, the events and the bytes of the queue."""
    (row,) = session.all(METRICS)
    return row


def test_new_queue_keeps_nothing_but_its_empty_tables(db: Database) -> None:
    db.queue()
    db.main.tick()
    oldest, newest, events, size = metrics(db.main)
    assert (oldest, newest, events) == (None, None, 0)
    assert size > 0
    assert db.main.one("select now() - queue_created < '1 h' from pgq.get_queue_metrics()")
    assert db.main.all("select * from pgq.get_queue_metrics('nope')") == []


def test_ages_are_those_of_the_ticks_that_count_the_first_and_the_last_event(db: Database) -> None:
    db.queue()
    db.main.insert("a")
    assert metrics(db.main)[:3] == (0, 0, 1)
    for events in (1, 0, 0, 2, 0, 0):  # ticks 2 to 7
        for _ in range(events):
            db.main.insert("b")
        db.main.tick()
    db.main.run(MINUTES)
    assert metrics(db.main)[:3] == (98 * 60, 95 * 60, 4)
    db.main.run("delete from pgq.tick where tick_id in (3, 6)")  # thinned
    assert metrics(db.main)[:3] == (98 * 60, 95 * 60, 4)
    db.main.insert("c")
    assert metrics(db.main)[:3] == (98 * 60, 0, 5)


def test_events_that_rotation_took_do_not_count(db: Database) -> None:
    db.queue()
    for data in "abcde":
        db.main.insert(data)
        db.main.deliver()  # ticks 2 to 6
        if data == "c":
            db.main.rotate()
    db.main.run(MINUTES)
    low = db.main.one("select queue_low_tick from pgq.queue")
    assert metrics(db.main)[:3] == ((99 - low) * 60, 94 * 60, 6 - low), "as a consumer may go back"
    size = metrics(db.main)[3]
    for _ in range(4):
        db.main.rotate()
        db.main.deliver()
    assert metrics(db.main)[:3] == (None, None, 0)
    assert metrics(db.main)[3] <= size


def test_damaged_tick_or_locked_queue_leaves_the_other_figures_and_queues(db: Database) -> None:
    db.queue()
    db.queue("other", consumers=())
    db.main.insert("a")
    db.main.tick()
    db.main.run("update pgq.tick set tick_time = 'infinity' where tick_id = 2 and tick_queue = 1")
    assert metrics(db.main)[:3] == (None, None, 1)
    locker = db.open()
    locker.begin()
    locker.run("lock table pgq.event_1_0 in access exclusive mode")
    locker.run("alter sequence pgq.event_1_id_seq owned by none")
    assert db.main.all(
        "select queue_name, estimated_events, total_bytes is null from pgq.get_queue_metrics()"
    ) == [("other", 0, False), ("q", None, True)]


@pytest.mark.parametrize("last", [2**62 + 1, 2**63 - 1])
def test_tick_ids_near_the_end_of_bigint_are_searched_as_others(db: Database, last: int) -> None:
    db.queue()
    db.main.one("select setval('pgq.event_1_tick_seq', %s, false)", last - 2)
    for _ in range(3):
        db.main.insert("a")
        assert db.main.tick() <= last
    db.main.run(
        f"update pgq.tick set tick_time = clock_timestamp() - ({last} - tick_id) * interval '1 min'"
        f" where tick_id >= {last - 2}"
    )
    assert metrics(db.main)[:3] == (120, 0, 3)
    db.main.insert("b")
    assert metrics(db.main)[:3] == (120, 0, 4)


def test_event_ids_near_the_end_of_bigint_break_no_queue(db: Database) -> None:
    db.queue()
    db.queue("other", consumers=())
    last = 2**63 - 1
    db.main.one("select setval('pgq.event_1_id_seq', %s)", last)
    db.main.run(f"update pgq.tick set tick_event_seq = {last} where tick_queue = 1")
    kept = "select queue_name, estimated_events from pgq.get_queue_metrics()"
    assert db.main.all(kept) == [("other", 0), ("q", 0)]


def test_it_reads_no_event_keeps_no_table_locked_and_walks_over_no_ticks(db: Database) -> None:
    def pages() -> int:
        metrics(db.main)
        (plan,) = db.main.one(f"explain (analyze, buffers, format json) {METRICS}")
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    db.queue()
    db.main.insert("a")
    db.main.tick()
    before = pages()
    db.main.one("select count(pgq.insert_event('q', 't', 'd')) from generate_series(1, 20000)")
    db.main.run(
        "insert into pgq.tick select 1, n, now(), txid_current_snapshot(), 1"
        " from generate_series(3, 20000) n"
    )
    assert pages() <= before + 300, "two searches of 15 steps"
    reader = db.open()
    reader.begin(RR)
    assert metrics(reader)[2] == 20_001
    assert reader.one(LOCKED) == 0
