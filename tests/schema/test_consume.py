"""Contract 1.4: consumers and batches."""

from __future__ import annotations

from tests.schema.statements import state

EVENTS = "select ev_id from pgq.get_batch_events(%s)"


def insert(sql, count=1):
    for _ in range(count):
        sql("select pgq.insert_event('q', 't', 'd')")


def test_register_at_a_tick_repositions_and_drops_the_open_batch(queue, sql, rows, batch):
    insert(sql)
    first = batch()
    assert sql("select pgq.register_consumer_at('q', 'c', 1)") == 0
    assert sql("select pgq.finish_batch(%s)", first) == 0
    again = sql("select pgq.next_batch('q', 'c')")
    assert again != first
    assert rows(EVENTS, again) == [(1,)]


def test_register_refuses_unknown_queue_tick_and_name(queue, sql):
    assert state(sql, "select pgq.register_consumer('nope', 'c')") == "PQ001"
    assert state(sql, "select pgq.register_consumer_at('q', 'd', 99)") == "PQ005"
    assert state(sql, "select pgq.register_consumer('q', '')") == "PQ009"
    assert state(sql, "select pgq.register_consumer('q', null)") == "PQ009"
    assert sql("select count(*) from pgq.consumer") == 1
    sql("delete from pgq.tick")
    assert state(sql, "select pgq.register_consumer('q', 'd')") == "PQ005"


def test_unregister_returns_one_then_zero(queue, sql):
    assert sql("select pgq.unregister_consumer('q', 'c')") == 1
    assert sql("select pgq.unregister_consumer('q', 'c')") == 0
    assert sql("select count(*) from pgq.position") == 0


def test_next_batch_without_a_tick_is_null(queue, sql):
    insert(sql)
    assert sql("select pgq.next_batch('q', 'c')") is None
    assert sql("select batch_id from pgq.next_batch_info('q', 'c')") is None


def test_idle_next_batch_takes_no_xid(queue, sql, connection):
    with connection.transaction():
        sql("select pgq.next_batch('q', 'c')")
        assert sql("select pg_current_xact_id_if_assigned()") is None


def test_open_batch_is_returned_again_whatever_the_limits(queue, sql, batch):
    opened = batch()
    sql("select pgq.tick_queue('q')")
    assert sql("select pgq.next_batch('q', 'c')") == opened
    again = sql("select batch_id from pgq.next_batch_custom('q', 'c', '1 day', 1000000, '1 day')")
    assert again == opened


def test_next_batch_of_an_unregistered_consumer_is_an_error(queue, sql):
    assert state(sql, "select pgq.next_batch('q', 'stranger')") == "PQ002"
    assert state(sql, "select pgq.next_batch('nope', 'c')") == "PQ002"


def test_position_on_a_missing_tick_is_named_corruption(queue, sql):
    sql("select pgq.tick_queue('q')")
    sql("delete from pgq.tick where tick_id = 1")
    assert state(sql, "select pgq.next_batch('q', 'c')") == "PQ015"


def test_min_count_merges_ticks(queue, sql, rows):
    custom = "select batch_id, cur_tick_id from pgq.next_batch_custom('q', 'c', null, %s, null)"
    for _ in range(3):
        insert(sql)
        sql("select pgq.tick_queue('q')")
    assert rows(custom, 4) == [(None, None)]
    assert rows(custom, 2)[0][1] == 4, "the last tick, not twice too far, ends the batch"


def test_min_count_that_overshoots_twofold_scans_forward(queue, sql, rows):
    for _ in range(5):
        insert(sql)
        sql("select pgq.tick_queue('q')")
    found = rows("select cur_tick_id from pgq.next_batch_custom('q', 'c', null, 2, null)")
    assert found == [(3,)]


def test_min_lag_holds_young_ticks_back(queue, sql):
    sql("select pgq.tick_queue('q')")
    assert sql("select batch_id from pgq.next_batch_custom('q', 'c', '1 hour', null, null)") is None
    sql("update pgq.tick set tick_time = tick_time - interval '2 hours'")
    assert sql("select batch_id from pgq.next_batch_custom('q', 'c', '1 hour', null, null)")


def test_min_interval_merges_ticks_by_time(queue, sql, rows):
    for hours in range(1, 4):
        sql("select pgq.tick_queue('q')")
        sql(
            "update pgq.tick set tick_time = now() + %s * interval '1 hour' where tick_id = %s",
            hours,
            hours + 1,
        )
    found = rows("select cur_tick_id from pgq.next_batch_custom('q', 'c', null, null, '2 hours')")
    assert found == [(4,)]


def test_events_of_a_batch_are_ordered_by_id(queue, sql, rows, batch):
    raw = "select pgq.insert_event_raw('q', %s, null, null, null, 't', 'd', null, null, null, null)"
    sql("select pgq.seq_setval('pgq.event_1_id_seq', 30)")
    for number in (30, 10, 20):
        sql(raw, number)
    assert rows(EVENTS, batch()) == [(10,), (20,), (30,)]


def test_unknown_batch_is_an_error_or_a_warning(queue, sql, connection):
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.severity))
    assert state(sql, EVENTS, 99) == "PQ003"
    assert state(sql, "select pgq.batch_event_tables(99)") == "PQ003"
    assert state(sql, "select pgq.batch_retry(99, 1)") == "PQ003"
    assert state(sql, "select pgq.event_retry(99, 1, 1)") == "PQ003"
    assert state(sql, "select pgq.event_retry(99, '{1}', '{1}', '{1s}')") == "PQ003"
    assert state(sql, "select pgq.event_dead(99, '{1}', '{1}', '{x}')") == "PQ003"
    assert state(sql, "select pgq.get_batch_cursor(99, 'c', 1)") == "PQ003"
    assert state(sql, "select pgq.batch_event_sql(99)") == "PQ003"
    assert sql("select queue_name from pgq.get_batch_info(99)") is None
    assert sql("select pgq.finish_batch(99)") == 0
    assert notices == ["WARNING"]


def test_cursor_returns_the_first_rows_and_fetch_the_rest(queue, sql, rows, connection, batch):
    insert(sql, 5)
    opened = batch()
    with connection.transaction():
        assert rows("select ev_id from pgq.get_batch_cursor(%s, 'cur', 2)", opened) == [(1,), (2,)]
        assert [row[0] for row in rows("fetch all from cur")] == [3, 4, 5]
    with connection.transaction():
        assert rows("select ev_id from pgq.get_batch_cursor(%s, 'cur', 0)", opened) == []
        assert len(rows("fetch all from cur")) == 5
        for nothing in ("null, 'cur', 1", f"{opened}, null, 1", f"{opened}, 'cur', null"):
            assert rows(f"select ev_id from pgq.get_batch_cursor({nothing})") == []
    with connection.transaction():
        assert rows("select ev_id from pgq.get_batch_cursor(%s, 'cur', -1)", opened) == []
    with connection.transaction():
        found = rows("select ev_id from pgq.get_batch_cursor(%s, 'cur', 9, 'ev_id > 3')", opened)
        assert found == [(4,), (5,)]


def test_batch_info_and_tables(queue, sql, rows, batch):
    insert(sql)
    opened = batch()
    info = rows(
        "select queue_name, consumer_name, prev_tick_id, tick_id, seq_start, seq_end, lag >= '0'"
        " from pgq.get_batch_info(%s)",
        opened,
    )
    assert info == [("q", "c", 1, 2, 0, 1, True)]
    assert len(rows("select pgq.batch_event_tables(%s)", opened)) == 3


def test_event_retry_returns_one_then_zero(queue, sql, rows, batch):
    insert(sql, 2)
    opened = batch()
    assert sql("select pgq.event_retry(%s, 1, 0)", opened) == 1
    assert sql("select pgq.event_retry(%s, 1, 0)", opened) == 0
    assert sql("select pgq.event_retry(%s, 2, now())", opened) == 1
    assert state(sql, "select pgq.event_retry(%s, 99, 0)", opened) == "PQ004"
    sql("select pgq.finish_batch(%s)", opened)
    assert sql("select pgq.maint_retry_events()") == 2
    again = batch()
    found = rows("select ev_id, ev_retry from pgq.get_batch_events(%s)", again)
    assert found == [(1, 1), (2, 1)]


def test_event_that_is_not_due_stays_in_the_retry_queue(queue, sql, batch):
    insert(sql)
    assert sql("select pgq.event_retry(%s, 1, 3600)", batch()) == 1
    assert sql("select pgq.maint_retry_events()") == 0
    assert sql("select count(*) from pgq.retry_queue") == 1


def test_retry_of_many_events_is_one_call(queue, sql, rows, batch):
    insert(sql, 3)
    opened = batch()
    txids = dict(rows("select ev_id, ev_txid from pgq.get_batch_events(%s)", opened))
    many = "select pgq.event_retry(%s, %s::bigint[], %s::bigint[], '{0s,0s}')"
    assert sql(many, opened, [1, 3], [txids[1], txids[3]]) == 2
    assert state(sql, many, opened, [1, 2], [txids[1], txids[3]]) == "PQ004"
    assert state(sql, many, opened, [1, 2], [txids[1]]) == "PQ009"
    assert state(sql, many, opened, [1], [txids[1]]) == "PQ009"
    assert sql("select count(*) from pgq.retry_queue") == 2


def test_event_of_another_batch_is_not_found(queue, sql, rows, batch):
    insert(sql)
    first = batch()
    txid = sql("select ev_txid from pgq.get_batch_events(%s)", first)
    sql("select pgq.finish_batch(%s)", first)
    insert(sql)
    second = batch()
    many = "select pgq.event_retry(%s, '{1}', array[%s]::bigint[], '{0s}')"
    assert state(sql, many, second, txid) == "PQ004"


def test_batch_retry_puts_all_events_into_the_retry_queue_once(queue, sql, batch):
    insert(sql, 3)
    opened = batch()
    sql("select pgq.event_retry(%s, 2, 0)", opened)
    assert sql("select pgq.batch_retry(%s, 0)", opened) == 2
    assert sql("select pgq.maint_retry_events()") == 3


def test_event_retry_raw_delays_an_event_for_one_consumer(queue, sql, rows, batch):
    raw = (
        "select pgq.event_retry_raw('q', %s, now(), null, null, 4,"
        " 't', 'd', null, null, null, null)"
    )
    assert sql(raw, "c") == 1
    assert state(sql, raw, "stranger") == "PQ002"
    assert state(sql, raw.replace("now()", "null"), "c") == "PQ009"
    sql("select pgq.maint_retry_events()")
    found = rows("select ev_id, ev_retry, ev_data from pgq.get_batch_events(%s)", batch())
    assert found == [(1, 4, "d")]
