"""House rules of the engine, asked of the catalogue."""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress

import psycopg
import pytest

from pgqpy import locks
from pgqpy.manifest import shipped_version
from tests.support.tree import ROOT

SCHEMA = ROOT / "schema"
FUNCTIONS = """
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('pgq', 'pgq_coop') and p.proname !~ '^insert_group_[0-9]+$'
"""
WRITES = re.compile(
    r"\b(insert into|update pgq|delete from|truncate|for (no key )?(update|share)|lock table"
    r"|(nextval|setval|set_config|pg_advisory_xact_lock)\()"
)
OF_TRIGGERS = {"encode_change", "encode_row", "evaluate", "insert_row_event", "url_encode"}
PUBLIC = OF_TRIGGERS | {
    "get_captures",
    "get_consumer_counts",
    "get_consumer_info",
    "get_cron_info",
    "get_delayed_counts",
    "get_holders",
    "get_inflight",
    "get_queue_info",
    "get_queue_metrics",
    "get_retry_counts",
    "get_rotation_info",
    "get_stalled_info",
    "get_tick_at",
    "get_tick_info",
    "get_tick_marks",
    "get_waiting_since",
    "queue_length",
    "quote_fqname",
    "schema_version",
    "seq_getval",
    "version",
}
ROLES = ("pgq_reader", "pgq_writer", "pgq_ticker", "pgq_admin", "pgq_dashboard", "pgq_capture")


def test_every_security_definer_function_pins_its_search_path(queue, rows):
    found = rows(f"select p.oid::regprocedure::text, proconfig {FUNCTIONS} and prosecdef")
    wrong = [
        name for name, config in found if "search_path=pg_catalog, pg_temp" not in (config or ())
    ]
    assert len(found) > 50
    assert wrong == []


def test_every_function_that_reads_for_others_fails_where_row_security_hides_rows(queue, rows):
    found = rows(
        "select distinct proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where nspname in ('pgq', 'pgq_coop') and (prosecdef or proname = 'get_batch_cursor')"
        " and not 'row_security=off' = any (proconfig)"
    )
    # They read their queue's row only, and raise PQ001 where it is hidden. A setting costs 2 %.
    producers = {"current_event_table", "insert_event", "insert_event_raw", "insert_events"}
    assert {name for (name,) in found} == producers | {"capture", "capture_row", "capture_rows"}


def test_functions_that_rule_plans_out_compile_nothing_and_start_no_workers(rows):
    """Before PostgreSQL 18, a plan that has to use what is ruled out looks expensive."""
    found = rows("""
        select p.oid::regprocedure::text from pg_proc p
         where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
           and exists (select from unnest(proconfig) s where s ~ '^enable_.*=off$')
           and not '{jit=off,max_parallel_workers_per_gather=0}' <@ proconfig
         order by 1
    """)
    assert found == []


def test_what_a_role_may_call_never_depends_on_its_search_path(queue, rows):
    found = rows(
        "select distinct proname from pg_proc p"
        " cross join unnest(%s::name[] || 'public'::name) role"
        " where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)"
        " and has_function_privilege(role, p.oid, 'execute') and prosqlbody is null"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)",
        list(ROLES),
    )
    # They take a condition or an expression, which means what it means to the caller, and qualify
    # all else.
    callers_path = {"get_batch_cursor", "jsontriga", "logutriga", "sqltriga"}
    assert {name for (name,) in found} == callers_path


def test_public_executes_only_what_shows_no_payload(queue, rows):
    found = rows(
        "select distinct proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where nspname in ('pgq', 'pgq_coop')"
        " and has_function_privilege('public', p.oid, 'execute')"
    )
    assert {name for (name,) in found} == PUBLIC


def test_public_reads_no_table_with_payloads(queue, rows):
    found = rows(
        "select relname from pg_class c join pg_namespace n on n.oid = relnamespace"
        " where nspname = 'pgq' and relkind in ('r', 'v')"
        " and (has_table_privilege('public', c.oid, 'select')"
        " or has_any_column_privilege('public', c.oid, 'select'))"
    )
    assert {name for (name,) in found} == {
        "truncation_0",
        "checked",
        "consumer",
        "current_position",
        "inflight",
        "installation",
        "position",
        "queue",
        "registration",
        "subscription",
        "tick",
        "tick_recent",
    }


def test_public_reads_no_hash_of_a_key(queue, sql):
    may = "select has_column_privilege('public', 'pgq.inflight', %s, 'select')"
    assert [sql(may, column) for column in ("run_token", "run_key")] == [True, False]


def test_rights_are_listed_once_for_every_function_but_internal_ones():
    listed = " ".join(
        re.findall(r"\('[\w ]+', '\n([\w\s]+)'\)", (SCHEMA / "setup/grants.sql").read_text())
    ).split()
    called = {path.stem for path in SCHEMA.glob("functions/*/*.sql")}
    coop = {path.stem for path in SCHEMA.glob("functions/coop/*.sql")}
    assert len(listed) == len(set(listed))
    assert called - coop <= set(listed) <= called


def test_every_function_that_a_role_may_call_has_a_comment(rows):
    """The others are described by the header of their file."""
    found = rows(
        f"select distinct proname {FUNCTIONS} and obj_description(p.oid) is null"
        " and exists (select from unnest(%s::name[]) role"
        " where has_function_privilege(role, p.oid, 'execute'))",
        list(ROLES),
    )
    assert found == []


def test_every_table_has_a_comment(rows):
    found = rows(
        "select relname from pg_class c join pg_namespace n on n.oid = relnamespace"
        " where nspname = 'pgq' and relkind in ('r', 'v') and obj_description(c.oid) is null"
    )
    assert found == []


def test_manifest_names_each_file_once_and_no_other():
    listed = re.findall(r"^\\ir (\S+)$", (SCHEMA / "install.sql").read_text(), re.MULTILINE)
    there = {path.relative_to(SCHEMA).as_posix() for path in SCHEMA.rglob("*.sql")} - {
        "install.sql"
    }
    assert sorted(listed) == sorted(there)


def test_every_file_of_a_function_has_its_name_and_says_what_it_writes():
    made = re.compile(
        r"^(?:create or replace|comment on) function pgq(?:_coop)?\.(\w+)", re.MULTILINE
    )
    for path in SCHEMA.glob("functions/**/*.sql"):
        text = path.read_text()
        assert text.startswith("-- "), path
        assert set(made.findall(text)) - {"insert_group_"} == {path.stem}, path
        body = re.sub(r"^--.*$", "", text, flags=re.MULTILINE)
        assert "Writes: " in text or "writes: " in text or not WRITES.search(body), path


def test_locks_have_the_same_numbers_in_sql_and_in_python(sql):
    names = {
        "engine": locks.ENGINE,
        "ticking": locks.TICKING,
        "installing": locks.INSTALLING,
        "changing": locks.CHANGING,
        "watching": locks.WATCHING,
        "moving": locks.MOVING,
        "consumer": locks.CONSUMER,
        "queue": locks.QUEUE,
        "sequence": locks.SEQUENCE,
        "skips": locks.SKIPS,
        "refill": locks.REFILL,
        "holder": locks.HOLDER,
        "claim": locks.CLAIM,
        "copying": locks.COPYING,
    }
    assert {name: sql("select pgq.lock_number(%s)", name) for name in names} == names
    source = "".join(path.read_text() for path in SCHEMA.rglob("*.sql"))
    assert set(re.findall(r"lock_number\('+(\w+)'+\)", source)) <= set(names)
    assert set(re.findall(r"\b73665\d\d\b.*", source)) == {
        "7366513, 1); end $$;  -- see lock_number",
        "7366513, 2);  -- see lock_number",
        *re.findall(r"'\w+' then (73665\d\d.*)", source),
    }


def test_preflight_knows_the_shipped_version():
    shipped = f"shipped constant int := {shipped_version()};"
    assert shipped in (SCHEMA / "setup/preflight.sql").read_text()


RIGHTS = [
    ("pgq_writer", "select pgq.insert_event('q', 't', 'd')", True),
    ("pgq_writer", "select pgq.insert_events('q', '{t}', '{d}')", True),
    (
        "pgq_writer",
        "insert into pgq.event_1_0 (ev_time, ev_type, ev_data) values (now(), 't', 'd')",
        True,
    ),
    ("pgq_writer", "insert into pgq.event_1_0 (ev_time, ev_txid) values (now(), 1)", False),
    ("pgq_writer", "insert into pgq.event_1_0 (ev_time, ev_owner) values (now(), 1)", False),
    ("pgq_writer", "select ev_data from pgq.event_1", False),
    ("pgq_writer", "select pgq.next_batch('q', 'c')", False),
    ("pgq_writer", "select pgq.drop_queue('q')", False),
    ("pgq_reader", "select pgq.next_batch('q', 'c')", True),
    ("pgq_reader", "select pgq.register_consumer('q', 'd')", True),
    ("pgq_reader", "select pgq_coop.next_batch('q', 'd', '1')", True),
    ("pgq_writer", "select pgq_coop.version()", False),
    ("pgq_admin", "select pgq_coop.register_subconsumer('q', 'd', '1')", True),
    ("pgq_reader", "select pgq.find_subconsumer('q', 'd', '1')", False),
    ("pgq_reader", "select ev_data from pgq.event_1", True),
    ("pgq_reader", "select pgq.insert_event('q', 't', 'd')", False),
    (
        "pgq_reader",
        "select pgq.insert_event_raw('q', 1, now(), 1, 1, 't', 'd', '', '', '', '')",
        False,
    ),
    ("pgq_reader", "select * from pgq.retry_queue", True),
    ("pgq_reader", "select * from pgq.dead_event", False),
    ("pgq_reader", "select pgq.tick_queue('q')", False),
    ("pgq_reader", "select pgq.tick_event_sql('q', 1, 1)", True),
    ("pgq_reader", "select pgq.get_tick_events('q', 1, 1)", True),
    ("pgq_reader", "select pgq.advance_subscription('q', 'c', 1, 1)", True),
    ("pgq_reader", "select pgq.get_tick_stages('q', 1, 1)", True),
    ("pgq_reader", "select pgq.tick_event_sql('q', 1, 1, '{}')", True),
    ("pgq_writer", "select pgq.get_tick_stages('q', 1, 1)", False),
    ("pgq_reader", "select pgq.find_range('q', 1, 1)", False),
    ("pgq_writer", "select pgq.get_tick_events('q', 1, 1)", False),
    ("pgq_writer", "select pgq.get_tick_info('q')", True),
    ("pgq_writer", "select pgq.pin_range('q', 'c', 1, 2)", False),
    ("pgq_reader", "select pgq.set_consumer_mode('q', 'c', 'shared')", True),
    ("pgq_writer", "select pgq.set_consumer_mode('q', 'c', 'shared')", False),
    ("pgq_reader", "select pgq.move_position(1, 1, 1, null, null)", False),
    ("pgq_ticker", "select pgq.tick_queue('q')", True),
    ("pgq_ticker", "select pgq.ticker()", True),
    ("pgq_ticker", "select pgq.maint_retry_events()", True),
    ("pgq_ticker", "select pgq.maint_rotate_tables_step1('q')", True),
    ("pgq_ticker", "select * from pgq.maint_operations()", True),
    ("pgq_ticker", "select pgq.insert_event('q', 't', 'd')", False),
    ("pgq_ticker", "select pgq.next_batch('q', 'c')", False),
    ("pgq_ticker", "select ev_data from pgq.event_1", False),
    ("pgq_ticker", "select pgq.create_queue('r')", False),
    ("pgq_ticker", "update pgq.queue set queue_cur_table = 0", False),
    ("pgq_admin", "select pgq.create_queue('r')", True),
    ("pgq_admin", "select pgq.drop_queue('q', true)", True),
    ("pgq_admin", "select pgq.insert_event('q', 't', 'd')", True),
    ("pgq_admin", "select pgq.next_batch('q', 'c')", True),
    ("pgq_admin", "update pgq.queue set queue_ticker_paused = true", True),
    ("pgq_admin", "update pgq.queue set queue_extra_maint = null", False),
    ("pgq_admin", "update pgq.queue set queue_cur_table = 0", False),
    ("pgq_admin", "delete from pgq.tick", False),
    ("pgq_admin", "select * from pgq.retry_queue", True),
    (
        "pgq_admin",
        "select pgq.insert_row(1, 1, now(), 1, 1, 't', 'd', '', '', '', '')",
        False,
    ),
    ("pgq_dashboard", "select pgq.get_history('q')", True),
    ("pgq_dashboard", "select pgq.get_dead_event_bounds('q', 'c')", True),
    ("pgq_dashboard", "select pgq.get_dead_event_counts('q', 'c')", True),
    ("pgq_dashboard", "select pgq.get_dead_events('q', 'c')", False),
    ("pgq_dashboard", "select pgq.delete_dead_events('q', 'c')", False),
    ("pgq_dashboard", "select pgq.get_rotation_info('q')", True),
    ("pgq_dashboard", "select pgq.get_kept_events('q', 'c')", False),
    ("pgq_dashboard", "select pgq.get_delayed_events('q')", False),
    ("pgq_dashboard", "select ev_data from pgq.event_1", False),
    ("pgq_dashboard", "select * from pgq.dead_event", False),
    ("pgq_dashboard", "select * from pgq.history", False),
    ("pgq_dashboard", "select pgq.insert_event('q', 't', 'd')", False),
    ("pgq_dashboard", "select pgq.next_batch('q', 'c')", False),
    ("pgq_dashboard", "select pgq.tick_queue('q')", False),
    ("pgq_dashboard", "select pgq.maint_history()", False),
    ("pgq_dashboard", "select pgq.begin_change('drop queue')", True),
    ("pgq_dashboard", "select pgq.end_change(1, 'done')", True),
    ("pgq_dashboard", "select * from pgq.get_changes()", True),
    ("pgq_dashboard", "select * from pgq.change", False),
    ("pgq_dashboard", "insert into pgq.change (change_action) values ('x')", False),
    ("pgq_admin", "select * from pgq.get_changes()", True),
    ("pgq_admin", "update pgq.change set change_outcome = 'x'", False),
    ("pgq_admin", "delete from pgq.change", False),
    ("pgq_admin", "truncate pgq.change", False),
    ("pgq_admin", "select nextval('pgq.change_change_id_seq')", False),
    ("pgq_reader", "select * from pgq.get_changes()", False),
    ("pgq_writer", "select pgq.begin_change('x')", False),
    ("pgq_ticker", "select pgq.maint_changes()", True),
    ("pgq_writer", "select pgq.get_history('q')", False),
    ("pgq_reader", "select pgq.get_history('q')", True),
    ("pgq_admin", "delete from pgq.history", False),
    ("pgq_ticker", "select pgq.maint_history()", True),
]


def test_each_role_can_do_its_part_and_no_more(queue, connection, sql, subtests):
    for role, statement, allowed in RIGHTS:
        may = nullcontext() if allowed else pytest.raises(psycopg.errors.InsufficientPrivilege)
        with subtests.test(role, statement=statement), connection.transaction(force_rollback=True):
            sql(f"set local role {role}")
            with may:
                sql(statement)


def test_a_stranger_sees_queues_and_no_payloads(queue, sql):
    sql("create role stranger_of_the_queue")
    sql("create sequence public.secret start 4711")
    sql("select nextval('public.secret')")
    try:
        sql("set role stranger_of_the_queue")
        assert sql("select count(*) from pgq.get_consumer_info()") == 1
        assert sql("select pgq.seq_getval('pgq.event_1_tick_seq')") == 1
        with suppress(psycopg.errors.InsufficientPrivilege):
            assert sql("select pgq.seq_getval('public.secret')") == 0, "it says no more than it may"
        for statement in (
            "select ev_data from pgq.event_1",
            "select pgq.insert_event('q', 't', 'd')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                sql(statement)
    finally:
        sql("reset role")
        sql("drop role stranger_of_the_queue")


def test_a_database_is_one_domain_of_trust_as_the_operations_page_says(sql, batch, connect):
    page = " ".join((ROOT / "docs" / "operations.md").read_text().replace("**", "").split())
    assert "A database is one domain of trust: no right is for one queue or one consumer" in page
    sql("select pgq.insert_event('q', 't', 'payload')")
    opened = batch()
    stranger = connect()
    stranger.execute("set role pgq_reader")
    read = stranger.execute("select ev_data from pgq.get_batch_events(%s)", [opened])
    assert read.fetchall() == [("payload",)]
    for statement in (
        "set role pgq_reader; select pgq.next_batch('q', 'c')",
        f"select pgq.finish_batch({opened})",
        "select pgq.unregister_consumer('q', 'c')",
        "set role pgq_writer; select pgq.insert_event('q', 't', 'd')",
    ):
        stranger.execute(statement)
    assert sql("select count(*) from pgq.subscription") == 0


SHOW = ("client_min_messages = log", "debug_print_plan = on", "debug_print_rewritten = on")
VALUE = re.compile(r":constvalue\s+\d+\s*\[([^\]]*)\]")
SECRET = "'secret', 'secret', 'secret', 'secret', 'secret', 'secret'"
FIRE = """
    select pgq.fire_cron(cron_name, version, next_due, next_due, next_due + '1 day'::interval)
    from pgq.get_cron_info()
"""


@pytest.mark.parametrize(
    ("role", "call"),
    [("pgq_writer", "select state from pgq.cancel_event('q', '{1}')"), ("pgq_ticker", FIRE)],
)
def test_plans_show_no_event_to_a_role_that_reads_none(queue, sql, connect, role, call):
    sql(f"select pgq.insert_event('q', {SECRET})")
    sql("select pgq.add_cron('e', 'q', 'secret', 'secret', '* * * * *')")
    sql("update pgq.cron set cron_next = date_trunc('minute', now()), cron_planned = '-infinity'")
    session = connect()
    shown = []
    session.add_notice_handler(lambda notice: shown.append(notice.message_detail or ""))
    session.execute(f"set role {role}")
    for setting in SHOW:
        session.execute(f"set {setting}")
    assert session.execute(call).fetchone() in {("cancelled",), (2,)}
    values = [bytes(int(n) % 256 for n in found.split()) for found in VALUE.findall("".join(shown))]
    assert values, "the session's own plans are shown"
    assert [value for value in values if b"secret" in value] == []


def test_every_function_with_events_for_a_role_that_reads_none_prints_no_plan(queue, rows):
    found = rows("""
        select distinct proname from pg_proc p cross join pg_settings s
         where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace) and prosecdef
           and s.name ~ '^debug_print_' and not s.name || '=off' = any (proconfig)
           and exists (
                select from unnest('{public,pgq_writer,pgq_ticker,pgq_dashboard}'::name[]) role
                 where has_function_privilege(role, p.oid, 'execute'))
    """)
    # They hold no event but the caller's. A setting costs 1 %.
    producers = {"current_event_table", "insert_event", "insert_events", "insert_event_at"}
    producers |= {"insert_event_once", "insert_events_at"}
    producers |= {"capture", "capture_row", "capture_rows"}
    assert {name for (name,) in found} == producers


def test_dashboard_may_call_what_shows_no_event_and_nothing_else(rows):
    found = rows(
        "select distinct proname from pg_proc where pronamespace = 'pgq'::regnamespace"
        " and has_function_privilege('pgq_dashboard', oid, 'execute')"
        " and not has_function_privilege('public', oid, 'execute') order by 1"
    )
    assert [name for (name,) in found] == [
        "begin_change",
        "end_change",
        "get_changes",
        "get_dead_event_bounds",
        "get_dead_event_counts",
        "get_history",
    ]
