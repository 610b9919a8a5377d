"""A clock that was stepped back stops nothing: earlier times lie in the future then."""

from __future__ import annotations

import pytest

HOUR = "interval '1 hour'"


def step_back(sql):
    """Leave what a clock that was stepped back by an hour leaves: all times an hour ahead."""
    sql(f"update pgq.tick set tick_time = tick_time + {HOUR}")
    sql(f"update pgq.queue set queue_switch_time = queue_switch_time + {HOUR}")


@pytest.fixture
def stepped(queue, sql):
    """A queue with two ticks of before the clock was stepped back."""
    sql("select pgq.tick_queue('q')")
    assert sql("select pgq.ticker('q')") is None
    step_back(sql)
    return queue


@pytest.mark.parametrize("events", [0, 1], ids=["idle", "with new events"])
def test_queue_is_ticked_at_once_and_then_by_its_rule_again(stepped, sql, rows, events):
    for _ in range(events):
        sql("select pgq.insert_event('q', 't', 'd')")
    assert rows("select * from pgq.ticker_due()") == [("q",)]
    assert sql("select pgq.ticker()") == 1
    assert sql("select pgq.ticker('q')") is None
    assert rows("select * from pgq.ticker_due()") == []


def test_age_of_the_last_tick_is_that_of_the_last_tick(stepped, sql):
    sql("select pgq.tick_queue('q')")
    assert sql("select ticker_lag between '0' and '1 minute' from pgq.get_queue_info('q')")


def test_consumer_with_an_interval_gets_what_came_since(stepped, sql):
    batch = "select batch_id from pgq.next_batch_custom('q', 'c', null, null, '10 minutes')"
    sql("select pgq.finish_batch(pgq.next_batch('q', 'c'))")
    assert sql(batch) is None
    sql("select pgq.insert_event('q', 't', 'd')")
    sql("select pgq.tick_queue('q')")
    opened = sql(batch)
    assert sql("select ev_data from pgq.get_batch_events(%s)", opened) == "d"
    sql("select pgq.finish_batch(%s)", opened)
    sql("select pgq.tick_queue('q')")
    assert sql(batch) is None


def test_consumer_that_wants_a_count_only_waits_for_it(stepped, sql):
    sql("select pgq.finish_batch(pgq.next_batch('q', 'c'))")
    sql("select pgq.tick_queue('q')")
    assert sql("select batch_id from pgq.next_batch_custom('q', 'c', null, 5, null)") is None


@pytest.mark.parametrize(("lag", "opens"), [("10 minutes", True), ("2 hours", False)])
def test_tick_further_ahead_than_the_lag_is_old_enough(stepped, sql, lag, opens):
    found = sql("select batch_id from pgq.next_batch_custom('q', 'c', %s, null, null)", lag)
    assert (found is not None) == opens


def test_rotation_goes_on(stepped, sql, rows):
    operations = "select func_name, func_arg from pgq.maint_operations()"
    assert ("pgq.maint_rotate_tables_step1", "q") in rows(operations)
    sql("select pgq.maint_rotate_tables_step1('q')")
    sql("select pgq.maint_rotate_tables_step2()")
    assert sql("select queue_cur_table from pgq.queue") == 1
    assert ("pgq.maint_rotate_tables_step1", "q") not in rows(operations)
    sql("select pgq.maint_rotate_tables_step1('q')")
    assert sql("select queue_cur_table from pgq.queue") == 1
