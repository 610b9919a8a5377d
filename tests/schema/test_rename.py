"""Renaming queues: what follows, what is refused, and what calls by a former name are told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.schema.statements import state
from tests.support.gates import wait_until_blocked

RENAME = "select pgq.rename_queue('q', 'purchases')"


def told(sql, statement, *params):
    """Return the code and the message with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        sql(statement, *params)
    return caught.value.sqlstate, caught.value.diag.message_primary


def test_what_belongs_to_the_queue_follows(queue, batch, sql, rows):
    once = "select is_new from pgq.insert_event_once(%s, 'key', '1 hour', 't', 'once')"
    for data in ("dead", "retried"):
        sql("select pgq.insert_event('q', 't', %s)", data)
    assert sql(once, "q") is True
    sql("select pgq.insert_event_at('q', now() + interval '1 hour', 't', 'delayed')")
    sql("select pgq.add_cron('entry', 'q', 't', 'cron', '@daily', 'UTC', 'one')")
    opened = batch()
    dead, retried, _once = rows("select ev_id from pgq.get_batch_events(%s)", opened)
    bury = "select pgq.event_dead(%s, array[ev_id], array[ev_txid], '{bad}')"
    sql("select pgq.event_retry(%s, %s, 0)", opened, retried[0])
    tables = rows("select queue_data_pfx, queue_tick_seq from pgq.queue")

    assert sql(RENAME) == 1
    assert rows("select queue_data_pfx, queue_tick_seq from pgq.queue") == tables
    assert sql("select pgq.next_batch('purchases', 'c')") == opened
    sql(f"{bury} from pgq.get_batch_events(%s) where ev_id = %s", opened, opened, dead[0])
    assert sql("select pgq.finish_batch(%s)", opened) == 1
    assert sql("select ev_data from pgq.get_dead_events('purchases', 'c')") == "dead"
    assert sql("select ev_data from pgq.get_delayed_events('purchases', 9)") == "delayed"
    assert sql(once, "purchases") is False
    assert sql("select pgq.run_cron('entry')") > 0
    assert sql("select pgq.maint_retry_events()") == 1
    sql("select pgq.tick_queue('purchases')")
    opened = sql("select pgq.next_batch('purchases', 'c')")
    events = rows("select ev_data from pgq.get_batch_events(%s)", opened)
    assert events == [("retried",), ("cron",)]
    assert sql("select queue_name from pgq.get_cron_info('entry')") == "purchases"


CALLS = {
    "a producer": "select pgq.insert_event('q', 't', 'd')",
    "many events": "select pgq.insert_events('q', '{t}', '{d}')",
    "a COPY": "select pgq.current_event_table('q')",
    "a stage": "select pgq.open_stage('q', 'w', 1)",
    "a consumer that begins": "select pgq.register_consumer('q', 'c')",
    "a consumer that runs": "select pgq.next_batch('q', 'c')",
    "a receiver": "select pgq.receive('q', 's')",
    "a subconsumer": "select pgq_coop.next_batch('q', 'c', 'sub')",
    "a reader of ticks": "select pgq.tick_event_sql('q', 1, 2)",
    "a position": "select pgq.advance_subscription('q', 'c', 1, 1)",
    "a retry": "select pgq.event_retry_raw('q', 'c', now(), 1, now(), 0, 't', 'd', '', '', '', '')",
    "an administrator": "select pgq.set_queue_config('q', 'ticker_paused', 'true')",
    "a rename": "select pgq.rename_queue('q', 'other')",
    "a drop": "select pgq.drop_queue('q')",
}


@pytest.mark.parametrize("statement", CALLS.values(), ids=CALLS)
def test_a_call_by_a_former_name_is_told_the_present_one(queue, sql, statement):
    sql("select pgq.register_shared_consumer('q', 's')")
    sql("select pgq.rename_queue('q', 'sales')")
    sql("select pgq.rename_queue('sales', 'purchases')")
    assert told(sql, statement) == ("PQ026", "queue q was renamed to purchases")


def test_a_former_name_is_forgotten_when_a_queue_gets_it(queue, sql):
    sql(RENAME)
    assert sql("select pgq.create_queue('q')") == 1
    sql("select pgq.insert_event('q', 't', 'd')")
    assert sql("select pgq.queue_length('purchases', 'c')") == 0, "it is in the new queue"
    assert state(sql, "select pgq.next_batch('q', 'c')") == "PQ002"
    sql("select pgq.drop_queue('q')")
    assert state(sql, "select pgq.tick_event_sql('q', 1, 2)") == "PQ001"
    sql("select pgq.rename_queue('purchases', 'sales')")
    sql("select pgq.create_queue('other')")
    sql("select pgq.rename_queue('other', 'purchases')")
    sql("select pgq.drop_queue('purchases')")
    assert state(sql, "select pgq.tick_event_sql('purchases', 1, 2)") == "PQ001"
    sql("select pgq.rename_queue('sales', 'q')")
    assert sql("select queue_former_names from pgq.queue") == ["sales"]


def test_a_name_that_is_not_free_or_not_valid_is_refused(queue, sql, connection):
    sql("select pgq.create_queue('other')")
    for name in ("q", "other", None, "", "a\nb", "ä" * 30):
        assert state(sql, "select pgq.rename_queue('q', %s)", name) == "PQ009"
    for name in ("none", None):
        assert state(sql, "select pgq.rename_queue(%s, 'purchases')", name) == "PQ001"
    connection.execute("begin isolation level repeatable read")
    assert state(sql, RENAME) == "PQ013"
    connection.execute("rollback")
    assert sql("select count(*) from pgq.queue where queue_name in ('q', 'other')") == 2


def test_it_does_not_wait_for_a_producer_whose_events_follow(queue, sql, connect):
    producer = connect(autocommit=False)
    producer.execute("select pgq.insert_event('q', 't', 'd')")
    sql("set statement_timeout = '30s'")
    sql(RENAME)
    producer.commit()
    sql("select pgq.tick_queue('purchases')")
    assert sql("select pgq.queue_length('purchases', 'c')") == 1
    assert told(producer.execute, "select pgq.insert_event('q', 't', 'd')")[0] == "PQ026"


def test_of_two_renames_at_once_the_second_is_told_the_new_name(queue, sql, connect, connection):
    first, second = connect(autocommit=False), connect()
    first.execute(RENAME)
    pid = second.info.backend_pid
    with ThreadPoolExecutor(1) as pool:
        renames = pool.submit(told, second.execute, "select pgq.rename_queue('q', 'other')")
        wait_until_blocked(connection, pid)
        first.commit()
        assert renames.result(30) == ("PQ026", "queue q was renamed to purchases")


TRIGGERS = """
    create table item (id int primary key);
    create table "Odd" (id int primary key) partition by range (id);
    create table part partition of "Odd" default;
    create trigger queue_ after insert on item for each row execute function pgq.jsontriga('q');
    create trigger "b c" after insert on "Odd" for each row execute function pgq.logutriga('q');
    create trigger b after insert on item for each row execute function pgq.sqltriga('q', 'backup');
    create trigger other after insert on item for each row execute function pgq.jsontriga('qq')"""


def test_triggers_with_the_name_are_listed_and_keep_it(queue, sql):
    sql(TRIGGERS)
    with pytest.raises(psycopg.errors.DependentObjectsStillExist) as failed:
        sql(RENAME)
    listed = '"b c" of public."Odd", b of public.item, queue_ of public.item'
    assert failed.value.diag.message_detail == f"queue q, triggers {listed}"
    sql('drop trigger "b c" on "Odd"; drop trigger b on item; drop trigger queue_ on item')
    assert sql(RENAME) == 1
