"""Contract 1.3: inserting events."""

from __future__ import annotations

import psycopg
import pytest

from tests.schema.statements import state

RAW = "select pgq.insert_event_raw(%s, null, null, null, 0, 't', 'd', '', '', '', '')"


def test_insert_event_returns_ids_that_count_up(queue, sql):
    assert sql("select pgq.insert_event('q', 't', 'd')") == 1
    assert sql("select pgq.insert_event('q', 't', 'd', 'a', 'b', 'c', 'd')") == 2


def test_every_field_arrives(queue, rows, sql, batch):
    sql("select pgq.insert_event('q', 'type', 'data', '1', '2', '3', '4')")
    sql("select pgq.insert_event('q', null, null)")
    found = rows(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, ev_retry"
        " from pgq.get_batch_events(%s)",
        batch(),
    )
    assert found == [("type", "data", "1", "2", "3", "4", None), (None,) * 7]


def test_insert_into_no_queue_is_an_error(queue, sql):
    for name, code in (("nope", "PQ001"), (None, "PQ009"), ("", "PQ001")):
        assert state(sql, "select pgq.insert_event(%s, 't', 'd')", name) == code
        assert state(sql, "select pgq.insert_events(%s, '{t}', '{d}')", name) == code
        assert state(sql, RAW, name) == code


def test_call_forout_any_queue_is_an_error(sql):
    assert state(sql, "select pgq.insert_event('q', 't', 'd')") == "PQ001"


def test_queues_of_all_groups_get_their_events_as_their_number_grows_and_shrinks(sql, rows):
    insert = "select pgq.insert_event(%s, 't', %s)"
    for number in range(1, 71):
        sql("select pgq.create_queue(%s)", f"q{number}")
        sql(insert, f"q{number}", "made")
        if number in (1, 64, 65, 70):
            sql("alter function pgq.insert_row rename to not_to_be_called")
            for name in ("q2", f"q{number}") if number > 1 else ("q1",):
                sql("select pgq.insert_event(%s, 't', 'd')", name)
                sql("select pgq.insert_event(%s, 't', 'd', '1', '2', '3', '4')", name)
            sql("alter function pgq.not_to_be_called rename to insert_row")
    for number in (*range(2, 60), *range(61, 70)):
        sql("select pgq.drop_queue(%s)", f"q{number}")
    assert state(sql, insert, "q63", "gone") == "PQ001"
    for number in (1, 60, 70):
        sql(insert, f"q{number}", "left")
        found = rows(f"select ev_data from pgq.event_{number} where ev_data <> 'd' order by ev_id")
        assert found == [("made",), ("left",)]


def test_disabled_queue_refuses_all_inserts(queue, sql):
    sql("select pgq.set_queue_config('q', 'disable_insert', 'true'), pgq.build_insert_path(null)")
    assert state(sql, "select pgq.insert_event('q', 't', 'd')") == "PQ006"
    assert state(sql, "select pgq.insert_events('q', '{t}', '{d}')") == "PQ006"
    assert state(sql, "select pgq.insert_event_at('q', 'tomorrow', 't', 'd')") == "PQ006"
    assert state(sql, RAW, "q") == "PQ006"
    assert state(sql, "select pgq.current_event_table('q')") == "PQ006"
    sql("set session_replication_role = replica")
    assert sql("select pgq.insert_event('q', 't', 'd')") is not None
    assert sql("select pgq.current_event_table('q')") == "pgq.event_1_0"


def test_limit_counts_the_events_of_one_transaction(queue, sql, connection):
    statement = "select pgq.insert_event('q', 't', 'd')"
    sql("select pgq.set_queue_config('q', 'per_tx_limit', '2'), pgq.build_insert_path(null)")
    with connection.transaction():
        sql(statement)
        sql(statement)
    with connection.transaction(force_rollback=True):
        sql("select pgq.insert_events('q', '{t,t}', '{d,d}')")
        assert state(sql, statement) == "PQ007"
    sql("select pgq.set_queue_config('q', 'per_tx_limit', '0')")
    assert state(sql, statement) == state(sql, RAW, "q") == "PQ007"


def test_insert_event_raw_chooses_all_fields(queue, sql, rows, batch):
    sub = sql("select sub_id from pgq.subscription")
    raw = "select pgq.insert_event_raw('q', %s, %s, %s, %s, 't', 'd', null, null, null, null)"
    sql("select pgq.seq_setval('pgq.event_1_id_seq', 77)")
    assert sql(raw, 77, "2001-01-01 00:00+00", sub, 3) == 77
    assert sql(raw, None, None, sub + 1, None) == 79, "nextval is used up by the first one too"
    found = rows(
        "select ev_id, ev_time = '2001-01-01 00:00+00', ev_retry from pgq.get_batch_events(%s)",
        batch(),
    )
    assert found == [(77, True, 3)], "an event with an owner is for that subscription only"


def test_an_id_beyond_the_sequence_is_refused_but_with_an_external_ticker(queue, sql):
    raw = "select pgq.insert_event_raw('q', 77, null, null, null, 't', 'd', '', '', '', '')"
    retry = "select pgq.event_retry_raw('q', 'c', now(), 77, null, 1, 't', 'd', '', '', '', '')"
    assert state(sql, raw) == state(sql, retry) == "PQ009"
    sql("update pgq.queue set queue_system_id = 1")
    assert state(sql, raw) == "PQ009", "a queue that moved soundly needs no repair"
    assert sql("select count(*) from pgq.event_1") == 0
    sql("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    assert sql(raw) == sql(retry) == 77


def test_insert_events_returns_ids_in_the_order_of_the_arrays(queue, rows, batch):
    ids = rows(
        "select pgq.insert_events('q', array_agg('t'::text order by n),"
        " array_agg(n::text order by n),"
        " ev_extra2s => array_agg((-n)::text order by n)) from generate_series(1, 500) n"
    )
    assert [row[0] for row in ids] == list(range(1, 501))
    found = rows(
        "select ev_id, ev_data, ev_extra1, ev_extra2 from pgq.get_batch_events(%s)", batch()
    )
    assert found == [(n, str(n), None, str(-n)) for n in range(1, 501)]


def test_insert_events_takes_empty_arrays_and_refuses_uneven_ones(queue, rows, sql):
    assert rows("select pgq.insert_events('q', '{}', '{}')") == []
    for call in ("insert_events('q'", "insert_events_at('q', 'tomorrow'"):
        for n, wrong in (*enumerate(["'{a,b}'"] * 6), (0, "null"), (1, "null")):
            arrays = ["'{a}'"] * n + [wrong] + ["'{a}'"] * (5 - n)
            assert state(sql, f"select pgq.{call}, {', '.join(arrays)})") == "PQ009", arrays


def test_current_event_table_names_the_table_of_inserts(queue, sql):
    sql("select pgq.insert_event('q', 't', 'd')")
    table = sql("select pgq.current_event_table('q')")
    assert sql("select tableoid::regclass::text from pgq.event_1") == table
    assert state(sql, "select pgq.current_event_table('nope')") == "PQ001"


@pytest.mark.parametrize(
    ("off", "on"),
    [
        (
            "select pgq.set_queue_config('q', 'disable_insert', 'true')",
            "select pgq.set_queue_config('q', 'disable_insert', 'false')",
        ),
        (
            "update pgq.queue set queue_disable_insert = true",
            "update pgq.queue set queue_disable_insert = false",
        ),
    ],
    ids=["function", "column"],
)
def test_no_copy_goes_into_a_queue_whose_inserts_are_disabled(queue, sql, off, on):
    copy = "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values (now(), 't', 'd')"
    sql("set role pgq_admin")
    sql(off)
    sql("select pgq.set_queue_config('q', 'ntables', '4')")
    sql("set role pgq_writer")
    for table in range(4):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql(copy.replace("1_0", f"1_{table}"))
    sql("set role pgq_admin")
    sql(on)
    sql("set role pgq_writer")
    sql(copy)
