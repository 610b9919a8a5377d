"""Subconsumers: their names, the mode of a consumer, and what each call refuses."""

from __future__ import annotations

import psycopg
import pytest

from tests.schema.statements import state


@pytest.fixture
def shared(queue, sql):
    """A consumer `c` of the queue with the worker `1`, and one event."""
    sql("select pgq.register_subconsumer('q', 'c', '1')")
    sql("select pgq.insert_event('q', 't', 'd')")
    sql("select tick_id from pgq.tick_queue('q')")


def test_a_worker_is_registered_once_and_brings_its_consumer(queue, sql, rows):
    calls = [("c", "1", 1), ("c", "1", 0), ("c", "2", 1), ("new", "1", 1)]
    for consumer, worker, new in calls:
        assert sql("select pgq.register_subconsumer('q', %s, %s)", consumer, worker) == new
    names = rows("select consumer_name from pgq.get_consumer_info('q')")
    assert [name for (name,) in names] == ["c", "c.1", "c.2", "new", "new.1"]
    assert sql("select pgq.unregister_subconsumer('q', 'c', '2', 0)") == 1
    assert sql("select pgq.unregister_subconsumer('q', 'c', '2', 0)") == 0
    assert sql("select pgq.unregister_consumer('q', 'c')") == 2
    assert sql("select pgq.drop_queue('q', true)") == 1
    assert sql("select count(*) from pgq.consumer") == 0


def test_a_worker_has_any_name_that_fits(queue, sql):
    for name in ("ä b", "a.b", "%s'\"\\", "x" * 253):
        assert sql("select pgq.register_subconsumer('q', 'c', %s)", name) == 1
        sql("select tick_id from pgq.tick_queue('q')")
        assert sql("select batch_id > 0 from pgq.take_part('q', 'c', %s)", name) is True


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the subconsumer name is empty"),
        (None, "Invalid NULL value"),
        ("x" * 254, "the consumer.subconsumer name has 256 octets, 255 is the limit"),
        ("a\nb", "the subconsumer name has a control character in it"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(queue, sql, name, message):
    with pytest.raises(psycopg.Error, match=message) as caught:
        sql("select pgq.register_subconsumer('q', 'c', %s)", name)
    assert caught.value.sqlstate == "PQ009"


def test_a_name_that_two_consumers_could_mean_belongs_to_the_first(queue, sql):
    sql("select pgq.register_subconsumer('q', 'c', 'b.1')")
    sql("select pgq.register_consumer('q', 'plain.1')")
    for consumer in ("c.b", "plain"):
        call = f"select pgq.register_subconsumer('q', '{consumer}', '1')"
        assert state(sql, call) == "PQ009"
        assert state(sql, f"select pgq.take_part('q', '{consumer}', '1')") == "PQ002"
        assert sql("select pgq.unregister_subconsumer('q', %s, '1', 0)", consumer) == 0


@pytest.mark.parametrize(
    ("before", "call", "code"),
    [
        ("select pgq.take_part('q', 'c', '1')", "select pgq.next_batch('q', 'c')", "PQ020"),
        ("select pgq.take_part('q', 'c', '1')", "select pgq.begin_run('q', 'c', 'h')", "PQ020"),
        ("select pgq.take_part('q', 'c', '1')", "select pgq.pin_range('q', 'c', 1, 2)", "PQ020"),
        ("select pgq.begin_run('q', 'c', 'h')", "select pgq.take_part('q', 'c', '1')", "PQ020"),
        (
            "select pgq.begin_run('q', 'c', 'h')",
            "select pgq.register_subconsumer('q', 'c', '2')",
            "PQ020",
        ),
        ("select pgq.next_batch('q', 'c')", "select pgq.take_part('q', 'c', '1')", "PQ021"),
        ("select", "select pgq.next_batch('q', 'c.1')", "PQ020"),
        ("select", "select pgq.pin_range('q', 'c.1', 1, 2)", "PQ020"),
        ("select", "select pgq.advance_subscription('q', 'c.1', 1, 2)", "PQ020"),
        ("select", "select pgq.register_consumer_at('q', 'c.1', 1)", "PQ020"),
        ("select", "select pgq.register_subconsumer('q', 'c.1', '1')", "PQ020"),
        ("select", "select pgq.set_consumer_mode('q', 'c.1', 'plain')", "PQ020"),
        ("select", "select pgq.set_consumer_mode('q', 'c', 'lanes')", "PQ009"),
        ("select", "select pgq.set_consumer_mode('q', 'd', 'plain')", "PQ002"),
        ("select", "select pgq.take_part('q', 'c', '2')", "PQ002"),
        ("select", "select pgq.take_part('q', 'd', '1')", "PQ002"),
        (
            "select pgq.take_part('q', 'c', '1')",
            "select pgq.unregister_subconsumer('q', 'c', '1', 0)",
            "PQ021",
        ),
        (
            "select pgq.take_part('q', 'c', '1')",
            "select pgq.unregister_consumer('q', 'c.1')",
            "PQ021",
        ),
        (
            "select pgq.take_part('q', 'c', '1')",
            "select pgq.set_consumer_mode('q', 'c', 'plain')",
            "PQ021",
        ),
    ],
)
def test_what_does_not_fit_the_mode_is_refused(shared, sql, before, call, code):
    sql(f"{before} limit 1")
    assert state(sql, call) == code


def test_the_mode_changes_while_nobody_runs_the_consumer(shared, sql, connect):
    sql("select pgq.finish_batch(batch_id) from pgq.take_part('q', 'c', '1')")
    with connect() as other:
        other.execute("select pg_advisory_lock(7366514, sub_id) from pgq.subscription")
        assert state(sql, "select pgq.set_consumer_mode('q', 'c', 'plain')") == "PQ021"
        other.execute("select pg_advisory_unlock_all()")
    assert sql("select pgq.set_consumer_mode('q', 'c', 'shared')") == 0
    assert sql("select pgq.set_consumer_mode('q', 'c', 'plain')") == 1
    sql("select tick_id from pgq.tick_queue('q')")
    assert sql("select pgq.finish_batch(pgq.next_batch('q', 'c'))") == 1
    assert sql("select pgq.set_consumer_mode('q', 'c', null)") == 1
    assert sql("select pgq.register_subconsumer('q', 'c', '1')") == 0


def test_a_dropped_batch_goes_to_nobody(shared, sql):
    assert sql("select batch_id > 0 from pgq.take_part('q', 'c', '1')") is True
    assert sql("select pgq.unregister_subconsumer('q', 'c', '1', 1)") == 1
    sql("select pgq.register_subconsumer('q', 'c', '2')")
    assert sql("select batch_id from pgq.take_part('q', 'c', '2')") is None


def test_a_range_is_as_large_as_its_worker_wants(shared, sql, rows):
    for _ in range(5):
        sql("select pgq.insert_event('q', 't', 'd')")
        sql("select tick_id from pgq.tick_queue('q')")
    wants = "select batch_id from pgq.take_part('q', 'c', '1', %s)"
    assert sql(wants.replace("%s", "i_min_lag => '1 hour'")) is None
    assert sql(wants.replace("%s", "i_min_count => 100")) is None
    batch = sql(wants.replace("%s", "i_min_count => 6"))
    assert len(rows("select * from pgq.get_batch_events(%s)", batch)) == 6
    assert sql("select consumer_name from pgq.get_batch_info(%s)", batch) == "c.1"


def test_a_shared_consumer_is_where_its_slowest_worker_is(shared, sql, rows):
    for _ in range(2):
        sql("select pgq.insert_event('q', 't', 'd')")
        sql("select tick_id from pgq.tick_queue('q')")
    sql("select pgq.register_subconsumer('q', 'c', '2')")
    sql("select pgq.register_subconsumer('q', 'c', '3')")
    batches = [sql("select batch_id from pgq.take_part('q', 'c', %s)", name) for name in "12"]
    sql("select pgq.finish_batch(%s)", batches[1])
    sql("update pgq.position set pos_active = now() - interval '1 hour' where pos_sub = 1")
    info = "select consumer_name, last_tick, pending_events, last_seen < '1 minute'"
    assert rows(f"{info} from pgq.get_consumer_info('q')") == [
        ("c", 1, 3, True),
        ("c.1", 1, 3, True),
        ("c.2", None, None, True),
        ("c.3", None, None, True),
    ]
    sql("select pgq.event_retry(%s, 1, 0)", batches[0])
    sql("select pgq.finish_batch(%s)", batches[0])
    assert rows(f"{info} from pgq.get_consumer_info('q', 'c')") == [("c", 3, 1, True)]
    counts = "select consumer_name, retry_events, dead_events from pgq.get_consumer_counts()"
    assert rows(counts) == [("c", 1, 0)]
