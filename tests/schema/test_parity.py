"""The same calls on the engine and on the extension pgq: the same results and error texts.

Where they differ on purpose the step says why; a difference that is not named fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.rows import dict_row


class Step(NamedTuple):
    """One statement; `why` names a difference that is wanted."""

    sql: str
    why: str = ""


EVENTS = (
    "select ev_id, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    " from pgq.get_batch_events(%(batch)s)"
)
QUEUE_INFO = (
    "select queue_name, queue_ntables, queue_cur_table, queue_rotation_period::text,"
    " queue_external_ticker, queue_ticker_paused, queue_ticker_max_count,"
    " queue_ticker_max_lag::text, queue_ticker_idle_period::text, last_tick_id"
    " from pgq.get_queue_info('q')"
)
CONSUMER_INFO = (
    "select queue_name, consumer_name, last_tick, current_batch is null, next_tick"
    " from pgq.get_consumer_info('q', 'c')"
)
RAW = "select pgq.insert_event_raw('q', %s, now(), null, null, 't', 'd', null, null, null, null)"
TICK = "update pgq.tick set tick_time = tick_time - interval '1 hour'"
ONE_WORDING = "a missing queue is 'No such queue' in every function"
ROTATE = [
    Step("select pgq.set_queue_config('q', 'rotation_period', '0')"),
    Step("select pgq.maint_rotate_tables_step1('q')"),
    Step("select pgq.maint_rotate_tables_step2()"),
]
STEPS = [
    Step("select pgq.create_queue('q')"),
    Step("select pgq.create_queue('q')"),
    Step("select pgq.create_queue(null)"),
    Step("select tick_event_seq from pgq.tick", "with PGQ's 1, the first event would not be new"),
    Step("select pgq.register_consumer('nope', 'c')", ONE_WORDING),
    Step("select pgq.register_consumer('q', 'c')"),
    Step("select pgq.register_consumer('q', 'c')"),
    Step("select pgq.register_consumer_at('q', 'c', 77)"),
    Step("select pgq.insert_event('q', 't', 'd1')"),
    Step("select pgq.insert_event('q', 't', 'd2', 'a', 'b', 'c', 'd')"),
    Step("select pgq.insert_event('nope', 't', 'd')"),
    Step("select pgq.insert_event(null, 't', 'd')"),
    Step("select pgq.seq_setval('pgq.event_1_id_seq', 100)"),
    Step(RAW.replace("%s", "50")),
    Step(RAW.replace("%s", "null")),
    Step("select pgq.next_batch('q', 'stranger')"),
    Step("select pgq.next_batch('q', 'c')"),
    Step("select pgq.ticker('nope')", ONE_WORDING),
    Step(TICK),
    Step("select pgq.ticker('q')"),
    Step("select cur_tick_id, prev_tick_id from pgq.next_batch_info('q', 'c')"),
    Step(EVENTS),
    Step(
        "select prev_tick_id, tick_id, queue_name, consumer_name from pgq.get_batch_info(%(batch)s)"
    ),
    Step("select pgq.event_retry(%(batch)s, 1, 0)"),
    Step("select pgq.event_retry(%(batch)s, 1, 0)"),
    Step("select pgq.event_retry(%(batch)s, 999, 0)"),
    Step("select pgq.event_retry(999, 1, 0)", "the extension says: event not found"),
    Step("select pgq.batch_retry(%(batch)s, 3600)"),
    Step("select pgq.batch_retry(999, 0)"),
    Step("select pgq.finish_batch(%(batch)s)"),
    Step("select pgq.finish_batch(%(batch)s)"),
    Step(EVENTS),
    Step("select pgq.get_batch_cursor(999, 'cur', 10)"),
    Step("select * from pgq.get_batch_info(999)"),
    Step("select pgq.batch_event_tables(999)"),
    Step("select pgq.batch_event_sql(999)"),
    Step("select pgq.batch_event_sql(null)"),
    Step("select pgq.get_batch_events(null)"),
    Step("select pgq.get_batch_cursor(null, 'cur', 10)"),
    Step("select pgq.get_batch_cursor(null, 'cur', 10, null)"),
    Step("select pgq.maint_retry_events()"),
    Step("select pgq.maint_retry_events()"),
    Step(TICK),
    Step("select pgq.ticker()"),
    Step("select pgq.next_batch('q', 'c') is not null"),
    Step(EVENTS),
    Step("select pgq.finish_batch(%(batch)s)"),
    Step(QUEUE_INFO),
    Step(CONSUMER_INFO),
    Step("select pgq.event_retry_raw('q', 'no', now(), 1, now(), 1, 't', 'd', '', '', '', '')"),
    Step("select pgq.event_retry_raw('q', 'c', now(), 99, now(), 1, 't', 'd', '', '', '', '')"),
    Step("select pgq.set_queue_config('q', 'ticker_max_count', '7')"),
    Step("select pgq.set_queue_config('q', null, '7')"),
    Step("select pgq.set_queue_config('nope', 'ticker_max_count', '7')", ONE_WORDING),
    Step("select pgq.set_queue_config('q', 'nope', '7')", 'the extension says: "nopes"'),
    Step("select pgq.set_queue_config('q', 'ticker_paused', 'true')"),
    Step("select pgq.ticker('q')"),
    Step("select pgq.force_tick('q')"),
    Step("select pgq.ticker('q', 100, now(), 1000)"),
    Step("select pgq.set_queue_config('q', 'ticker_paused', 'false')"),
    Step("select pgq.force_tick('q')"),
    Step("select pgq.set_queue_config('q', 'external_ticker', 'true')"),
    Step("select pgq.ticker('q')"),
    Step("select pgq.ticker('q', 100, now(), 5000)"),
    Step("select pgq.maint_rotate_tables_step1('q')"),
    Step("select pgq.maint_rotate_tables_step2()"),
    Step("update pgq.queue set queue_disable_insert = true, queue_per_tx_limit = 1"),
    Step("select pgq.insert_event('q', 't', 'd')"),
    Step("select pgq.current_event_table('q')"),
    Step("select pgq.current_event_table('nope')", ONE_WORDING),
    Step("update pgq.queue set queue_disable_insert = false"),
    Step("select pgq.insert_event('q', 't', 'd') is null"),
    Step("select pgq.insert_event('q', 't', 'd'), pgq.insert_event('q', 't', 'd')"),
    Step("select pgq.current_event_table('q')"),
    Step("select pgq.drop_queue('nope')", ONE_WORDING),
    Step("select pgq.drop_queue('q')"),
    Step("select pgq.unregister_consumer('q', 'nope')"),
    Step("select pgq.unregister_consumer('q', 'c')"),
    Step("select pgq.unregister_consumer('q', 'c')"),
    Step("select pgq.grant_perms('nope')", ONE_WORDING),
    Step("select pgq.tune_storage('nope')"),
    Step("select pgq.tune_storage(null)"),
    *ROTATE,
    *ROTATE,
    Step("select queue_rotation_period::text, queue_cur_table from pgq.queue"),
    Step("select pgq.drop_queue(null)"),
    Step("select pgq.drop_queue(null, false)", ONE_WORDING),
    Step("select pgq.drop_queue('q')"),
    Step("select pgq.quote_fqname('a.b.c')"),
    Step("select pgq.quote_fqname(null)"),
    Step("select pgq.upgrade_schema() is not null"),
    Step("select substr(pgq.version(), 1, 3)"),
]


def outcome(connection: psycopg.Connection[Any], step: Step) -> object:
    """Run a step: its rows and warnings, or the first line of its error."""
    notices: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity == "WARNING":
            notices.append(str(diagnostic.message_primary))

    connection.add_notice_handler(note)
    batch = connection.execute("select max(sub_batch) from pgq.subscription").fetchone()
    try:
        cursor = connection.execute(step.sql, {"batch": batch[0] if batch and batch[0] else 1})
        return (cursor.fetchall() if cursor.description else cursor.rowcount, notices)
    except psycopg.Error as exc:
        return exc.diag.message_primary
    finally:
        connection.remove_notice_handler(note)


def test_engine_answers_as_the_extension_does(connect, dsn, extension_dsn):
    ours, theirs = connect(dsn=dsn), connect(dsn=extension_dsn)
    different = []
    for step in STEPS:
        found, expected = outcome(ours, step), outcome(theirs, step)
        if (found == expected) == bool(step.why):
            different.append((step.sql, found, expected))
    assert different == []


@pytest.mark.parametrize("table", ["consumer", "queue", "tick", "event_template", "retry_queue"])
def test_columns_of_the_contract_are_there_in_their_order(connect, dsn, extension_dsn, table):
    statement = (
        "select attname::text, format_type(atttypid, atttypmod), attnotnull from pg_attribute"
        " where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum"
    )
    found = connect(dsn=dsn).execute(statement, [f"pgq.{table}"]).fetchall()
    expected = connect(dsn=extension_dsn).execute(statement, [f"pgq.{table}"]).fetchall()
    assert found[: len(expected)] == expected


def test_view_of_positions_has_the_columns_of_the_table(connect, dsn, extension_dsn):
    statement = (
        "select attname::text, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'pgq.subscription'::regclass and attnum > 0 order by attnum"
    )
    found = connect(dsn=dsn).execute(statement).fetchall()
    assert found == connect(dsn=extension_dsn).execute(statement).fetchall()


# What a caller can see of a function: its arguments and result, what it does with NULL, who may. A
# function with defaults is there once for each number of arguments, as the overloads of PGQ are.
SIGNATURES = """
    select format('%s(%s)', p.proname, array_to_string(p.proargtypes[0:n - 1]::regtype[], ','))
            as name,
        p.proargnames[1:n] || array(
            select a.name from unnest(p.proargnames, p.proargmodes) a (name, mode)
             where a.mode in ('o', 't')) as arguments,
        pg_get_function_result(p.oid) as result, proisstrict as strict,
        case provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end
            as volatility,
        array(
            select role from unnest(array['public', 'pgq_reader', 'pgq_writer', 'pgq_admin']) role
            where has_function_privilege(role, p.oid, 'execute')) as callers
    from pg_proc p, generate_series((p.pronargs - p.pronargdefaults)::int, p.pronargs) n
    where pronamespace = 'pgq'::regnamespace and proname not like '\\_%'
"""
WANTED = {
    (
        "find_tick_helper(integer,bigint,timestamp with time zone,bigint,bigint,interval)",
        "volatility",
    ): "stable: it would search with the caller's snapshot",
}


def signatures(connection: psycopg.Connection[Any]) -> dict[str, dict[str, Any]]:
    """Return what can be seen of each function, by its name with the types of its arguments."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return {row["name"]: row for row in cursor.execute(SIGNATURES)}


def test_functions_are_called_by_the_same_roles_names_and_types(connect, dsn, extension_dsn):
    ours, theirs = signatures(connect(dsn=dsn)), signatures(connect(dsn=extension_dsn))
    assert len(theirs) == 50  # of 51; _grant_perms_from is PGQ's own
    different = {
        (name, key)
        for name, expected in theirs.items()
        for key, value in expected.items()
        if ours.get(name, {}).get(key) != value
    }
    assert different == WANTED.keys()


@pytest.mark.parametrize(
    "statement",
    [
        "insert into pgq.subscription select * from pgq.subscription",
        "update pgq.subscription set sub_last_tick = 1",
        "delete from pgq.subscription",
    ],
)
def test_positions_are_moved_by_functions_alone(queue, sql, statement):
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        sql(statement)


def test_a_transaction_that_ticked_cannot_be_prepared(queue, sql):
    sql("begin")
    sql("select pgq.tick_queue('q')")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        sql("prepare transaction 'ticked'")


def test_the_schemas_of_cascading_are_missing(sql):
    assert sql("select to_regnamespace('pgq_ext') is null and to_regnamespace('pgq_node') is null")
