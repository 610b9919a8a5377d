"""Contract 1.5: ticks."""

from __future__ import annotations

import psycopg
import pytest

from tests.schema.statements import state


def age(sql, *seconds):
    """Make the last ticks that many seconds old, newest first."""
    for nth, each in enumerate(seconds):
        sql(
            "update pgq.tick set tick_time = clock_timestamp() - %s * interval '1 second'"
            " where tick_id ="
            " (select tick_id from pgq.tick order by tick_id desc offset %s limit 1)",
            each,
            nth,
        )


@pytest.fixture
def ticked(queue, sql):
    """A queue with two ticks, the second of them just now."""
    sql("select pgq.tick_queue('q')")
    return queue


def test_first_event_of_a_queue_counts_as_new(ticked, sql):
    sql("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    age(sql, 0, 0)
    sql("select pgq.set_queue_config('q', 'ticker_idle_period', '1 hour')")
    sql("select pgq.insert_event('q', 't', 'd')")
    assert sql("select pgq.ticker('q')") == 3


def test_new_events_wait_for_max_lag(ticked, sql):
    sql("select pgq.insert_event('q', 't', 'd')")
    age(sql, 2.5, 100)
    assert sql("select pgq.ticker('q')") is None
    age(sql, 3.5, 100)
    assert sql("select pgq.ticker('q')") == 3


def test_max_count_events_are_ticked_at_once(ticked, sql):
    sql("select pgq.set_queue_config('q', 'ticker_max_count', '3')")
    sql("select pgq.insert_event('q', 't', 'd')")
    assert sql("select pgq.ticker('q')") is None
    sql("select pgq.insert_events('q', '{t,t}', '{d,d}')")
    assert sql("select pgq.ticker('q')") == 3


def test_tick_is_wanted_at_each_limit(sql):
    """A limit is of 10 events or 4 s; idle gaps double from 2 s up to 60 s."""
    wanted = "select pgq.tick_wanted(%s, %s, %s, 10, '4 s', '60 s')"
    ticked = [(0, "-1 us", "1 s"), (0, "0", None), (None, "0", None), (10, "0", "1 s")]
    ticked += [(-1, "0", "1 s"), (1, "4 s", "1 s"), (0, "2 s", "1 s"), (0, "60 s", "50 s")]
    idle = [(0, "0", "1 s"), (5, "0", None), (9, "3.9 s", "1 s"), (0, "1.9 s", "0.1 s")]
    idle += [(0, "3 s", "2 s"), (0, "59 s", "50 s")]
    assert [sql(wanted, *each) for each in ticked + idle] == [True] * 8 + [False] * 6


def test_queue_with_one_tick_is_ticked_at_once(queue, sql):
    assert sql("select pgq.ticker('q')") == 2
    assert sql("select pgq.ticker('q')") is None


def test_ticker_that_has_nothing_to_do_takes_no_xid(ticked, sql, connection):
    with connection.transaction():
        sql("select pgq.ticker('q')")
        sql("select count(*) from pgq.ticker_activity()")
        sql("select count(*) from pgq.ticker_due()")
        assert sql("select pg_current_xact_id_if_assigned()") is None


def test_due_names_the_queues_that_ticker_would_tick(queue, sql, rows):
    """Also beside one whose look fails, which is due itself."""
    for name in ("other", "paused", "external"):
        sql("select pgq.create_queue(%s)", name)
    sql("select pgq.set_queue_config('paused', 'ticker_paused', 'true')")
    sql("select pgq.set_queue_config('external', 'external_ticker', 'true')")
    due = "select * from pgq.ticker_due() order by 1"
    assert rows(due) == [("other",), ("q",)]
    sql("select pgq.ticker('other')")
    assert rows(due) == [("q",)]
    sql("update pgq.tick set tick_event_seq = -1::bigint << 63 where tick_queue = 1")
    assert rows(due) == [("q",)]


def test_ticker_refuses_unknown_paused_and_external_queues(queue, sql, rows):
    assert state(sql, "select pgq.ticker('nope')") == "PQ001"
    sql("select pgq.set_queue_config('q', 'ticker_paused', 'true')")
    assert state(sql, "select pgq.ticker('q')") == "PQ011"
    assert sql("select tick_id from pgq.tick_queue('q')") is None
    assert rows("select * from pgq.ticker_activity()") == []
    assert sql("select pgq.ticker()") == 0
    sql("select pgq.set_queue_config('q', 'ticker_paused', 'false')")
    sql("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    assert state(sql, "select pgq.ticker('q')") == "PQ011"
    assert sql("select tick_id from pgq.tick_queue('q')") is None
    assert sql("select tick_id from pgq.tick_queue('nope')") is None
    assert rows("select * from pgq.ticker_activity()") == []


def test_external_tick_moves_both_sequences_and_must_grow(queue, sql):
    external = "select pgq.ticker('q', %s, now() - interval '1 day', %s)"
    assert state(sql, external, 50, 500) == "PQ011"
    sql("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    assert sql(external, 50, 500) == 50
    assert sql("select pgq.seq_getval('pgq.event_1_tick_seq')") == 50
    assert sql("select pgq.insert_event('q', 't', 'd')") == 501
    assert state(sql, external, 50, 600) == "PQ009"
    for wrong in ("null, now(), 600", "60, null, 600", "60, now(), null"):
        assert state(sql, f"select pgq.ticker('q', {wrong})") == "PQ009"
    sql("select pgq.create_queue('r'), pgq.set_queue_config('r', 'external_ticker', 'true')")
    assert sql("select pgq.ticker('r', 7, now(), 0)") == 7
    assert sql("select max(tick_id) from pgq.tick where tick_queue = 2") == 7
    sql("select pgq.set_queue_config('q', 'ticker_paused', 'true')")
    assert state(sql, external, 60, 600) == "PQ011"


def test_ticker_counts_the_queues_and_goes_on_past_a_broken_one(queue, sql, connection):
    notices = []
    connection.add_notice_handler(lambda notice: notices.append((notice.severity, notice.sqlstate)))
    for name in ("a", "z"):
        sql("select pgq.create_queue(%s)", name)
    sql("alter sequence pgq.event_1_tick_seq rename to gone")
    assert sql("select pgq.ticker()") == 2
    assert notices == [("WARNING", "42P01")]


def test_queue_without_its_sequence_does_not_hide_the_others(queue, sql, rows):
    sql("select pgq.create_queue('other')")
    assert sql("select pgq.ticker('q')") == 2
    sql("alter sequence pgq.event_1_id_seq rename to gone")
    assert rows("select queue_name, event_seq from pgq.ticker_activity() order by 1") == [
        ("other", 0),
        ("q", 0),
    ]
    assert rows("select * from pgq.ticker_due() order by 1") == [("other",), ("q",)]


def test_only_the_queues_asked_for_are_looked_at(queue, sql, rows):
    for name in ("two", "three", "four"):
        sql("select pgq.create_queue(%s)", name)
    sql("select pgq.insert_event('four', 't', 'd')")
    found = rows(
        "select queue_name, event_seq from pgq.ticker_activity(2, 3, '{3,4,9}') order by 1"
    )
    assert found == [("four", 1), ("three", 0), ("two", 0)]
    assert rows("select * from pgq.ticker_due(2, 3) order by 1") == [("three",), ("two",)]


def test_pulse_changes_with_events_and_queues_and_with_nothing_else(queue, sql, connect):
    for name in ("two", "three", "four"):
        sql("select pgq.create_queue(%s)", name)
    pulse = "select pgq.ticker_pulse(2, 9, '{3}')"
    found = [sql(pulse)]

    def changed():
        found.append(sql(pulse))
        return found[-1] != found[-2]

    sql("select pgq.tick_queue('two')")
    sql("select pgq.insert_event('q', 't', 'not in the range')")
    sql("select pgq.insert_event('three', 't', 'excepted')")
    assert not changed()
    sql("select pgq.insert_event('two', 't', 'd')")
    assert changed()
    sql("select pgq.insert_event('four', 't', 'as many as in the other')")
    assert changed()
    sql("select pgq.create_queue('five')")
    assert changed()
    with connect(autocommit=False) as admin:
        admin.execute("select pgq.drop_queue('five')")
        assert changed()
        admin.rollback()
    assert changed()
    sql("select pgq.set_queue_config('two', 'ticker_paused', 'true')")
    assert changed()
    assert len(set(found)) == len(found) - 2


def test_tick_in_another_isolation_says_how_to_change_it(queue, connection):
    with pytest.raises(psycopg.Error) as caught, connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select pgq.ticker()")
    assert "begin isolation level read committed" in str(caught.value.diag.message_hint)
    connection.execute("set default_transaction_isolation = serializable")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select pgq.ticker()")
    user, database = connection.info.user, connection.info.dbname
    assert f"alter role {user} in database {database} set" in str(caught.value.diag.message_hint)


def test_force_tick_makes_the_next_ticker_tick(ticked, sql):
    assert sql("select pgq.ticker('q')") is None
    assert sql("select pgq.force_tick('q')") == 2
    assert sql("select pgq.ticker('q')") == 3
    assert sql("select pgq.force_tick('nope')") is None


def test_force_tick_takes_ids_rather_than_setting_the_sequence(ticked, sql):
    first = sql("select pgq.seq_getval(queue_event_seq) from pgq.queue")
    sql("select pgq.force_tick('q')")
    count = sql("select queue_ticker_max_count from pgq.queue")
    assert sql("select pgq.seq_getval(queue_event_seq) from pgq.queue") == first + count


def test_force_tick_reaches_the_largest_max_count(ticked, sql):
    sql("select pgq.set_queue_config('q', 'ticker_max_count', '2147483647')")
    sql("select pgq.force_tick('q')")
    assert sql("select pgq.ticker('q')") == 3
    assert sql("select pgq.insert_event('q', 't', 'd')") < 1 << 40


def test_tick_notifies_its_queue_and_no_insert_does(queue, sql, connection):
    sql('listen "pgq_q"')
    sql("select pgq.insert_event('q', 't', 'd')")
    assert list(connection.notifies(timeout=0)) == []
    sql("select pgq.tick_queue('q')")
    found = [(n.channel, n.payload) for n in connection.notifies(timeout=5, stop_after=1)]
    assert found == [("pgq_q", "2")]


def test_longest_queue_name_has_a_channel(sql, connection):
    name = "q" * 59
    sql("select pgq.create_queue(%s)", name)
    sql(f'listen "pgq_{name}"')
    sql("select pgq.tick_queue(%s)", name)
    assert [n.payload for n in connection.notifies(timeout=5, stop_after=1)] == ["2"]
