"""A login with nothing but pgq_admin does not become the owner of the schema, nor a superuser."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = {
    "queue_disable_insert",
    "queue_external_ticker",
    "queue_per_tx_limit",
    "queue_retention",
    "queue_rotation_period",
    "queue_ticker_idle_period",
    "queue_ticker_max_count",
    "queue_ticker_max_lag",
    "queue_ticker_paused",
}
EVENT = {"ev_time", "ev_type", "ev_data", "ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4"}
WRITES = ("insert", "update", "delete", "truncate", "references", "trigger")
GRAB = "pgq.event_1_tick_seq to public; alter role current_user superuser; --"
CLAIM = "alter role hostile_admin superuser"
NAMES = ("queue_tick_seq", "queue_event_seq", "queue_data_pfx")
ATTACKS = {
    "names of a queue's own": [
        *(f"update pgq.queue set {column} = '{GRAB}'" for column in NAMES),
        "update pgq.queue set queue_data_pfx = 'public.precious'",
        (
            "insert into pgq.queue (queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)"
            f" values ('x', 'public.precious', 'public.s', '{GRAB}')"
        ),
        "select pgq.grant_perms('q')",
        "select pgq.drop_queue('q')",
    ],
    "state that drives code": [
        "update pgq.queue set queue_ntables = 64",
        "update pgq.queue set queue_id = -1",
        "update pgq.queue set queue_extra_maint = '{public.own}'",
        "select pgq.set_queue_config('q', 'extra_maint', '{public.maint}')",
        "select pgq.set_queue_config('q', 'ntables', '3); " + CLAIM + "; --')",
        "select pgq.set_queue_config('q', 'rotation_period', '1 hour''::text; " + CLAIM + "; --')",
        "select pgq.set_queue_config('q', 'queue_name = queue_name; " + CLAIM + "; --', '1')",
        "select pgq.create_queue('x''; " + CLAIM + "; --')",
        "select pgq.create_queue('$sql$; " + CLAIM + "; --')",
        "select pgq.drop_queue('x''; " + CLAIM + "; --', true)",
    ],
    "what hides behind a name": [
        "create temporary table pg_class as select 1 as oid",
        "create temporary table pgq_repair (ev_id int)",
        "create function pg_temp.own(pg_temp.pg_class) returns boolean language sql return true",
        "set search_path = public, pg_temp, pg_catalog",
        (
            "create function public.format(text, text) returns text language plpgsql as"
            f" 'begin execute ''{CLAIM}''; return $2; end'"
        ),
        "select pgq.repair_queue('q')",
        "select pgq.tune_storage('q')",
        "select pgq.create_queue('y')",
        "select pgq.set_queue_config('y', 'ntables', '5')",
        "select pgq.drop_queue('y')",
    ],
    "the events' tables": [
        "create trigger own before insert on pgq.event_1_0 execute function public.own()",
        "create rule own as on insert to pgq.event_1_0 do also select public.own()",
        "alter table pgq.event_1_0 alter ev_id set default public.own()",
        "create table public.child () inherits (pgq.tick)",
        "truncate pgq.event_1_0",
        "insert into pgq.event_template (ev_id) values (1)",
        "create function pgq.own() returns int language sql return 1",
        "grant pgq_admin to hostile_admin with admin option",
    ],
}


@pytest.fixture
def admin(queue: str, sql: Callable[..., Any], connect: Callable[..., Any]) -> Any:
    """Log in as somebody who has pgq_admin, a schema to write into, and nothing else."""
    sql("create role hostile_admin login in role pgq_admin")
    sql("grant create on schema public to public")
    sql("create table public.precious as select 42 as answer")
    session = connect()
    session.execute("set session authorization hostile_admin")
    yield session
    session.close()
    sql("drop owned by hostile_admin")
    sql("drop role hostile_admin")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_way_leads_from_pgq_admin_to_the_owner(admin, sql, attack):
    body = f"begin execute '{CLAIM}'; return null; end"
    admin.execute(f"create function public.own() returns trigger language plpgsql as $${body}$$")
    for statement in ATTACKS[attack]:
        with suppress(psycopg.Error):
            admin.execute(statement)
    sql("select pgq.insert_event('q', 't', 'd') from pgq.queue where queue_name = 'q'")
    sql("select pgq.ticker()")
    assert sql("select not rolsuper from pg_roles where rolname = 'hostile_admin'")
    assert sql("select answer from public.precious") == 42
    assert sql("select pg_has_role('hostile_admin', current_user, 'member')") is False
    assert sql("select count(*) from pgq.queue where queue_ntables = 64") == 0


@pytest.mark.parametrize(
    ("role", "updates", "inserts"),
    [
        ("public", set(), set()),
        ("pgq_reader", set(), set()),
        ("pgq_ticker", set(), set()),
        ("pgq_writer", set(), EVENT),
        ("pgq_admin", SETTINGS, EVENT),
    ],
)
def test_roles_write_no_table_but_events_and_the_settings_of_queues(
    queue, rows, role, updates, inserts
):
    found = rows(
        "select relname, privilege from pg_class cross join unnest(%s::text[]) privilege"
        " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p', 'v')"
        " and has_table_privilege(%s, oid, privilege)",
        list(WRITES),
        role,
    )
    assert found == []
    columns = (
        "select relname, attname from pg_class c join pg_attribute on attrelid = c.oid"
        " where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'p', 'v') and attnum > 0"
        " and not attisdropped and has_column_privilege(%s, c.oid, attnum, %s)"
    )
    assert set(rows(columns, role, "update")) == {("queue", column) for column in updates}
    found = rows(columns, role, "insert")
    assert {column for _, column in found} == inserts
    assert all(re.fullmatch(r"event_\d+(_\d+)?", table) for table, _ in found)


WORK = [
    "update pgq.queue set queue_ticker_max_lag = '1 second', queue_rotation_period = '1 hour'",
    "select count(*) from pgq.retry_queue",
    "select count(*) from pgq.dead_event",
    "select count(*) from pgq.event_1",
    "select pgq.set_queue_config('q', 'ntables', '4')",
    "select pgq.set_queue_config('q', 'per_tx_limit', '')",
    "select pgq.set_queue_config('q', 'extra_maint', '{}')",
    "select pgq.grant_perms('q')",
    "select pgq.tune_storage('q')",
    "select pgq.repair_queue('q')",
    "select pgq.seq_setval('pgq.event_1_id_seq', 1000)",
    "select pgq.insert_event_raw('q', 5, now(), null, 1, 't', 'd', '', '', '', '')",
    "select pgq.event_retry_raw('q', 'c', now(), null, now(), 1, 't', 'd', '', '', '', '')",
    "select pgq.maint_rotate_tables_step1('q')",
    "select pgq.upgrade_schema()",
    "select pgq.create_queue('r'), pgq.drop_queue('q', true)",
]


def test_a_login_with_nothing_but_pgq_admin_does_its_work(admin, subtests):
    for statement in WORK:
        with subtests.test(statement):
            admin.execute(statement)


def test_the_names_of_a_queues_tables_cannot_be_set_by_anybody(queue, sql):
    for column in NAMES:
        with pytest.raises(psycopg.errors.GeneratedAlways):
            sql(f"update pgq.queue set {column} = 'public.precious'")


def test_maintenance_runs_no_function_of_an_administrator_or_an_extension(admin, sql, subtests):
    admin.execute("create function public.mine(text) returns int language sql return 0")
    sql("create procedure public.more(text) language sql as ''")
    set_it = "select pgq.set_queue_config('q', 'extra_maint', %s)"
    functions = ("pg_catalog.pg_read_file", "pgq.insert_event")
    for name in ("public.mine", "public.nobodys", "public.more", *functions):
        with subtests.test(name):
            with pytest.raises(psycopg.Error) as caught:
                admin.execute(set_it, [f"{{{name}}}"])
            assert caught.value.sqlstate == "PQ009"


def test_maintenance_leaves_out_a_function_that_the_schemas_owner_could_replace(admin, sql):
    sql("create schema theirs")
    sql("create function theirs.maint(text) returns int language sql return 0")
    admin.execute("select pgq.set_queue_config('q', 'extra_maint', '{theirs.maint}')")
    listed = "select count(*) from pgq.maint_operations() where func_name = 'theirs.maint'"
    assert sql(listed) == 1
    sql("alter schema theirs owner to hostile_admin")
    assert sql(listed) == 0
    sql("alter schema theirs owner to current_user")
    sql("drop schema theirs cascade")


def test_maintenance_leaves_out_a_function_that_changed_hands(admin, sql, rows):
    sql("create function public.ours(text) returns int language sql return 0")
    admin.execute("select pgq.set_queue_config('q', 'extra_maint', '{public.ours}')")
    listed = "select count(*) from pgq.maint_operations() where func_name = 'public.ours'"
    assert sql(listed) == 1
    sql("alter function public.ours(text) owner to hostile_admin")
    assert sql(listed) == 0
    sql("drop function public.ours(text)")
    admin.execute("create function public.ours(text) returns int language sql return 0")
    assert sql(listed) == 0
