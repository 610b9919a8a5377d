"""What a task promises if ticks change after it was planned: its events, or an error."""

from __future__ import annotations

import pytest

from pgqpy import calls
from pgqpy.errors import DatabaseRestored, NotFound
from tests.spark.feed import datas, read, rows_of

CHANGED = "is not the one that this task was planned with"
OLD = "update pgq.tick set tick_time = '2026-01-01 00:00:00.5Z'"


@pytest.fixture
def planned(feed):
    """A reader and its partitions, from tick 1 to tick 3."""
    feed.client.register_consumer(feed.queue, "c")
    feed.insert("a")
    feed.insert("b")
    feed.client.connection.execute(OLD)
    reader = feed.batch(endingOffsets={"orders": 3})
    return reader, reader.partitions()


def test_a_task_that_straddles_a_repair_is_an_error(feed, planned):
    assert feed.client.call(calls.admin.repair_queue(feed.queue)) == 2
    with pytest.raises(NotFound, match=CHANGED) as caught:
        rows_of(*planned)
    assert (caught.value.queue, caught.value.tick_id) == (feed.queue, 3)
    assert datas(read(feed.batch())) == ["a", "b"]


@pytest.mark.parametrize(
    ("ticks_since", "compacted"), [(0, False), (1, False), (4, False), (4, True)]
)
def test_a_task_that_straddles_a_failover_to_a_standby_that_lagged_is_an_error(
    feed, planned, ticks_since, compacted
):
    """The new server has no tick 3, or gave that number to another tick."""
    execute = feed.client.connection.execute
    execute("delete from pgq.tick where tick_id > 2")
    execute("delete from pgq.event_1 where ev_data = 'b'")
    execute("select setval(queue_tick_seq::regclass, 2) from pgq.queue")
    for number in range(ticks_since):
        feed.insert(f"new {number}")
    if compacted:
        execute("select pgq.compact_ticks()")
    with pytest.raises(NotFound, match=CHANGED):
        rows_of(*planned)


def test_a_task_that_straddles_a_restore_which_needs_a_repair_is_an_error(feed, planned):
    execute = feed.client.connection.execute
    execute("update pgq.queue set queue_system_id = 1")
    execute("insert into pgq.event_1_0 (ev_id, ev_txid, ev_type) values (1000, 3, 't')")
    with pytest.raises(DatabaseRestored, match="pgqpy schema repair"):
        rows_of(*planned)


def test_a_task_whose_last_tick_compaction_removed_reads_its_events(feed, planned):
    feed.insert("later")
    execute = feed.client.connection.execute
    execute(OLD)
    execute("select pgq.compact_ticks()")
    assert execute("select tick_id from pgq.tick").fetchall() == [(1,), (4,)]
    assert datas(rows_of(*planned)) == ["a", "b"]


def test_a_task_whose_last_tick_was_removed_after_the_clock_was_set_back_reads_its_events(
    feed, planned
):
    """The second of tick 3 comes twice, and compaction keeps the last tick of both together."""
    execute = feed.client.connection.execute
    times = {4: "2025-12-31 23:59:58Z", 5: "2026-01-01 00:00:00.7Z", 6: "2026-01-01 00:00:01Z"}
    for number, time in times.items():
        feed.insert(f"later {number}")
        execute("update pgq.tick set tick_time = %s where tick_id = %s", [time, number])
    execute("select pgq.compact_ticks()")
    assert execute("select tick_id from pgq.tick").fetchall() == [(1,), (4,), (5,), (6,)]
    assert datas(rows_of(*planned)) == ["a", "b"]
