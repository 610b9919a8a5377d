"""Contract 1.7: rotation, retries, maintenance; 1.8: information functions."""

from __future__ import annotations

from tests.schema.statements import state


def insert(sql, count):
    events = "array_fill('t'::text, array[%s]), array_fill('d'::text, array[%s])"
    sql(f"select pgq.insert_events('q', {events})", count, count)


def finish_all(sql):
    sql("select pgq.tick_queue('q')")
    while batch := sql("select pgq.next_batch('q', 'c')"):
        sql("select pgq.finish_batch(%s)", batch)


def rotate(sql):
    """Rotate whatever the period says; return the current table."""
    sql("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    sql("select pgq.maint_rotate_tables_step1('q')")
    sql("select pgq.maint_rotate_tables_step2()")
    return sql("select queue_cur_table from pgq.queue")


def test_rotation_waits_for_its_period_and_for_step2(queue, sql):
    finish_all(sql)
    assert sql("select pgq.maint_rotate_tables_step1('q')") == 0
    assert sql("select queue_cur_table from pgq.queue") == 0
    sql(
        "update pgq.queue set queue_switch_step2 = null,"
        " queue_switch_time = now() - interval '1 day'"
    )
    sql("select pgq.maint_rotate_tables_step1('q')")
    assert sql("select queue_cur_table from pgq.queue") == 0
    assert sql("select pgq.maint_rotate_tables_step2()") == 0
    sql("select pgq.maint_rotate_tables_step1('q')")
    assert sql("select queue_cur_table from pgq.queue") == 1


def test_rotation_keeps_what_no_tick_has_seen_when_there_are_no_consumers(queue, sql):
    sql("select pgq.unregister_consumer('q', 'c')")
    sql("select pgq.insert_event('q', 't', 'd')")
    assert [rotate(sql), rotate(sql), rotate(sql)] == [1, 2, 2]
    sql("select pgq.tick_queue('q')")
    assert rotate(sql) == 0


def test_rotation_of_an_unknown_queue_and_of_a_broken_one(queue, sql):
    assert state(sql, "select pgq.maint_rotate_tables_step1('nope')") == "PQ001"
    assert state(sql, "select pgq.maint_ticks('nope')") == "PQ001"
    sql("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    sql("delete from pgq.tick")
    assert state(sql, "select pgq.maint_rotate_tables_step1('q')") == "PQ015"
    sql("update pgq.queue set queue_switch_step1 = 1::bigint << 60")
    assert state(sql, "select pgq.maint_rotate_tables_step1('q')") == "PQ012"


def test_register_at_a_tick_whose_events_are_truncated_is_refused(queue, sql):
    sql("select pgq.insert_event('q', 't', 'd')")
    finish_all(sql)
    for _ in range(3):
        rotate(sql)
    assert state(sql, "select pgq.register_consumer_at('q', 'c', 1)") == "PQ005"
    assert sql("select pgq.register_consumer_at('q', 'd', 2)") == 1


def test_maint_ticks_keeps_what_a_consumer_or_a_reposition_needs(queue, sql, rows):
    ticks = "select tick_id from pgq.tick order by 1"
    finish_all(sql)
    rotate(sql)
    finish_all(sql)
    finish_all(sql)
    rotate(sql)
    assert sql("select pgq.maint_ticks('q')") == 0
    assert rows(ticks) == [(2,), (3,), (4,)], "ticks since the rotation before the last one"
    assert sql("select pgq.register_consumer_at('q', 'slow', 2)") == 1
    rotate(sql)
    finish_all(sql)
    rotate(sql)
    sql("select pgq.maint_ticks('q')")
    assert rows(ticks) == [(2,), (3,), (4,), (5,)], "the slow consumer is still at 2"


def test_maint_ticks_works_in_chunks(queue, sql):
    sql(
        "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
        " select 1, n, 0 from generate_series(2, 2500) n"
    )
    sql("select pgq.register_consumer_at('q', 'c', 2500)")
    rotate(sql)
    rotate(sql)
    assert sql("select pgq.maint_ticks('q')") == 1
    assert sql("select pgq.maint_ticks('q')") == 0
    assert sql("select min(tick_id) from pgq.tick") == 2500


def test_rotation_does_not_wait_for_a_transaction_that_wrote_no_event(queue, sql, connect):
    other = connect(autocommit=False)
    other.execute("select txid_current()")
    sql("select pgq.insert_event('q', 't', 'd')")
    finish_all(sql)
    assert [rotate(sql), rotate(sql), rotate(sql)] == [1, 2, 0]
    assert sql("select count(*) from pgq.event_1") == 0


def test_rotation_asks_the_index_and_not_every_event(queue, sql, connect):
    insert(sql, 20_000)
    finish_all(sql)
    assert [rotate(sql) for _ in range(3)] == [1, 2, 0]
    sql("select pg_stat_force_next_flush()")
    scanned = "select seq_tup_read from pg_stat_user_tables where relname = 'event_1_0'"
    assert connect().execute(scanned).fetchone() == (0,)


def test_maint_positions_keeps_the_position(queue, sql, rows):
    for _ in range(5):
        finish_all(sql)
    before = rows("select * from pgq.subscription")
    assert sql("select count(*) from pgq.position") == 11
    assert sql("select pgq.maint_positions()") == 0
    assert sql("select count(*) from pgq.position") == 1
    assert rows("select * from pgq.subscription") == before
    sql("select pgq.tick_queue('q')")
    opened = sql("select pgq.next_batch('q', 'c')")
    sql("select pgq.maint_positions()")
    assert sql("select pgq.finish_batch(%s)", opened) == 1


def test_maint_positions_waits_for_no_row_that_is_deleted_just_now(queue, sql, rows, connect):
    finish_all(sql)
    unregistering = connect(autocommit=False)
    unregistering.execute("select pgq.unregister_consumer('q', 'c')")
    sql("set lock_timeout = '2s'")
    assert sql("select pgq.maint_positions()") == 0
    unregistering.rollback()
    assert len(rows("select from pgq.position")) > 1
    assert sql("select pgq.maint_positions()") == 0
    assert len(rows("select from pgq.position")) == 1


def test_maint_skipped_events_waits_for_no_row_that_is_deleted_just_now(queue, sql, rows, connect):
    sql(
        "insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)"
        " select sub_id, 3, no from pgq.registration, generate_series(1, 3) no"
    )
    deleting = connect(autocommit=False)
    deleting.execute("delete from pgq.skipped_event where skip_id = 2")
    sql("set lock_timeout = '2s'")
    left = "select skip_id from pgq.skipped_event order by 1"
    assert sql("select pgq.maint_skipped_events()") == 0
    assert rows(left) == [(2,)]
    deleting.rollback()
    assert sql("select pgq.maint_skipped_events()") == 0
    assert rows(left) == []


def test_retries_of_a_broken_queue_do_not_stop_the_others(queue, sql, connection):
    notices = []
    connection.add_notice_handler(lambda notice: notices.append(notice.severity))
    sql("select pgq.create_queue('a')")
    sql("select pgq.register_consumer('a', 'c')")
    raw = (
        "select pgq.event_retry_raw(%s, 'c', now(), null, null, null,"
        " 't', 'd', null, null, null, null)"
    )
    sql(raw, "a")
    sql(raw, "q")
    sql("alter table pgq.event_1_0 rename to gone")
    assert sql("select pgq.maint_retry_events()") == 1
    assert notices == ["WARNING"]
    assert sql("select count(*) from pgq.retry_queue") == 1


def test_maint_operations_lists_what_is_due(queue, sql, rows):
    operations = "select func_name, func_arg from pgq.maint_operations()"
    assert rows(operations) == [
        ("pgq.maint_ticks", "q"),
        ("pgq.maint_recent_ticks", None),
        ("pgq.maint_positions", None),
        ("pgq.maint_stages", None),
        ("pgq.maint_skipped_events", None),
        ("pgq.maint_dedup_keys", None),
    ]
    sql("update pgq.queue set queue_switch_time = now() - interval '1 day'")
    sql("select pgq.set_queue_config('q', 'extra_maint', '{pgq.tune_storage}')")
    assert rows(operations) == [
        ("pgq.maint_rotate_tables_step1", "q"),
        ("pgq.maint_rotate_tables_step2", None),
        ("pgq.maint_ticks", "q"),
        ("pgq.maint_recent_ticks", None),
        ("pgq.maint_positions", None),
        ("pgq.maint_stages", None),
        ("pgq.maint_skipped_events", None),
        ("pgq.tune_storage", "q"),
        ("pgq.maint_dedup_keys", None),
    ]


def test_queue_info_counts_new_events_and_rate(queue, sql, rows):
    sql("update pgq.tick set tick_time = now() - interval '10 seconds'")
    insert(sql, 50)
    info = "select queue_name, ev_new, last_tick_id, round(ev_per_sec) from pgq.get_queue_info('q')"
    assert rows(info) == [("q", 50, 1, None)]
    sql("select pgq.tick_queue('q')")
    assert rows(info) == [("q", 0, 2, 5)]
    assert rows("select queue_name from pgq.get_queue_info()") == [("q",)]
    assert rows("select * from pgq.get_queue_info('nope')") == []


def test_consumer_info_counts_pending_events(queue, sql, rows):
    sql("select pgq.register_consumer('q', 'd')")
    insert(sql, 5)
    finish_all(sql)
    info = (
        "select consumer_name, last_tick, current_batch, pending_events"
        " from pgq.get_consumer_info({})"
    )
    assert rows(info.format("")) == [("c", 2, None, 0), ("d", 1, None, 5)]
    batch = sql("select pgq.next_batch('q', 'd')")
    assert rows(info.format("'q', 'd'")) == [("d", 1, batch, 5)]
    assert len(rows(info.format("'q'"))) == 2
    assert rows(info.format("'nope'")) == []


def test_version_is_that_of_the_contract(sql):
    assert sql("select pgq.version()") == "3.5"
    assert sql("select pgq.upgrade_schema()") == 0


def test_each_event_is_due_once_and_moved_by_its_queue_only(queue, sql, connection):
    """The poll did not see transaction 500, nor those from 1000 on; a clock may be stepped back."""
    sql("select pgq.create_queue('other')")
    times = "'{-600.000001,-600,0,0.000001,1800}'::float[]"
    tables = {"retry_queue": "ev_retry_after", "delayed_event": "ev_deliver_at"}
    for table, at, poll in ((*each, poll) for each in tables.items() for poll in (-600, 3600)):
        with connection.transaction(force_rollback=True):
            sql(
                f"insert into pgq.{table} ({at}, ev_queue, ev_id, ev_time, ev_txid, ev_owner)"
                " select now() + s * interval '1 s', queue_id, 10 * n + x % 7, now(), x,"
                f" queue_id from pgq.queue, unnest({times}) with ordinality t (s, n),"
                " unnest('{1,500,999,1000}'::int[]) x"
            )
            since = f"now() + '{poll} s'::interval"
            late = "ev_txid >= 1000 or ev_txid = 500"
            ids = "select array_agg(ev_id order by ev_id) from pgq."
            due = f"{ids}{table} where ev_queue = 1 and {at} <= now() and "
            expected = sql(f"{due} ({at} >= {since} or {late})")
            if table == "retry_queue":
                found = sql(f"{ids}due_retries({since}, 1000, '{{500}}') where ev_queue = 1")
                assert found == expected
            else:
                found = sql(f"{ids}late_delayed(1000, '{{500}}') where ev_queue = 1")
                assert found == sql(f"{due} ({late})")
            move = f"select pgq.move_due(q, %s, {since}, 1000, '{{500}}', 100) from pgq.queue q"
            assert sql(f"{move} where queue_id = 1", table) == len(expected)
            assert sql(f"{ids}event_1") == expected
            assert sql(f"select count(*) from pgq.{table}") == 40 - len(expected)
