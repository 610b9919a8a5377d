"""Who may capture and copy tables, and with whose rights the code of a table's types runs."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

import pgqpy
from pgqpy import table_copy
from pgqpy.doctor import examine
from pgqpy.install import install
from tests.capture.captured import Event, capture, chunk, events, kv, reserve
from tests.guarantees.restoring import database, write_dump
from tests.guarantees.sessions import Database, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from pgqpy.testing import EmbeddedServer

    Connection: TypeAlias = psycopg.Connection[Any]

HOSTILE = """
    create schema po;
    create table po.who (who text);
    grant insert on po.who to public; grant usage on schema po to public;
    create type po.colour as enum ('red');
    create function po.convert(po.colour) returns json language plpgsql as $$
    declare
        attempt text;
        prepared name;
    begin
        insert into po.who values (current_user);
        foreach attempt in array array[
            'set role postgres', 'select from pg_authid', 'select from pgq.queue for update',
            'delete from pgq.tick', 'select from pgq.event_1', 'create table pgq.mine ()',
            'select pgq.create_queue(''mine'')', 'select pgq.tick_queue(''q'')',
            'select pgq.next_batch(''q'', ''c'')', 'select pgq.cancel_event(''q'', ''{{1}}'')',
            'select pgq.drop_stage(''q'', ''r'')'] loop
            begin
                execute attempt;
                insert into po.who values (attempt);
            exception when others then null;
            end;
        end loop;
        {}
        return '"x"';
    end $$;
    create cast (po.colour as json) with function po.convert(po.colour);
    create table po.t (id int primary key, c po.colour);
"""
INVOKER = """
    alter function pgq.capture_row(record) security invoker
        set search_path = po, pg_catalog;
    alter function pgq.capture_rows(anyarray, text[]) security invoker
        set search_path = po, pg_catalog;
"""
SHADOWS = """
    create function po.row_to_json(po.t) returns json language plpgsql as
        'begin insert into po.who values (current_user); return ''{"id": 1}''; end';
    create function po.differ(name, name) returns boolean language sql as 'select false';
    create operator po.<> (leftarg = name, rightarg = name, function = po.differ);
"""


@pytest.fixture
def app(
    db: Database, login: Callable[..., str], connect: Callable[..., Connection]
) -> Iterator[Connection]:
    """A session of an application, which may make schemas and has no right in the schema pgq."""
    name = login()
    db.main.run(f"grant create on database {db.main.connection.info.dbname} to {name}")
    yield connect(user=name)
    db.main.run("drop schema if exists po cascade")  # what a cast needs keeps its role


def test_an_application_without_a_right_on_pgq_writes(db: Database, app: Connection) -> None:
    kv(db)
    install(db.main.connection)  # over captured tables
    db.main.run(f"grant all on kv to {app.info.user}")
    app.execute("insert into kv values (3, 'mine'); update kv set v = 'his'; truncate kv")
    kinds = ["insert", "update", "update", "update", "truncate"]
    assert [event.type for event in events(db)] == [f"public.kv.{kind}" for kind in kinds]
    with refused("42501"):
        app.execute("select pgq.insert_event('q', 't', 'd')")


def test_a_cast_of_the_application_gets_no_right(db: Database, app: Connection) -> None:
    app.execute(HOSTILE.format(""))
    db.main.one("select pgq.add_capture('q', 'po.t')")
    ids = reserve(db.main)
    app.execute("insert into po.t values (1, 'red')")
    db.main.run("insert into po.t values (2, 'red')")
    assert chunk(db.main, ids, "po.t")[0] == 2
    assert set(db.main.all("select who from po.who")) == {("pgq_capture",)}


def test_a_cast_that_alters_the_functions_gets_no_right(db: Database, app: Connection) -> None:
    app.execute(HOSTILE.format(INVOKER) + SHADOWS)
    db.main.one("select pgq.add_capture('q', 'po.t')")
    ids = reserve(db.main)
    app.execute("insert into po.t values (1, 'red')")
    with refused("42501"):
        db.main.run("insert into po.t values (2, 'red')")
    with refused("42501"):
        chunk(db.main, ids, "po.t")
    assert set(db.main.all("select who from po.who")) == {("pgq_capture",)}
    assert said(db) == ["fail", "fail"]
    install(db.main.connection)
    assert said(db) == []


SET_PATH = "perform set_config('search_path', 'po, pg_catalog', false);"
BEFORE_CATALOG = """
    create function po.told(text) returns text language plpgsql as
        'begin insert into po.who values (current_user); return $1; end';
    create function po.field(json, text) returns text language sql as
        'select po.told($1 operator(pg_catalog.->>) $2)';
    create operator po.->> (leftarg = json, rightarg = text, function = po.field);
    create function po.cardinality(text[]) returns int language sql as
        'select pg_catalog.cardinality($1) from po.told(null)';
"""


def test_a_cast_that_changes_the_search_path_gets_no_right(db: Database, app: Connection) -> None:
    app.execute(HOSTILE.format(SET_PATH) + BEFORE_CATALOG)
    app.execute("insert into po.t values (1, 'red')")
    db.main.one("select pgq.add_capture('q', 'po.t')")
    ids = reserve(db.main)
    with refused("42501"):
        app.execute("update po.t set id = 2")
    with refused("42501"):
        chunk(db.main, ids, "po.t")
    assert app.execute("select from po.who").fetchall() == []  # rolled back
    assert "po" not in str(db.main.one("show search_path"))


SETTINGS = """
    execute 'alter function pgq.capture_row(record) '
        'set timezone = "Asia/Tokyo"';
    execute 'alter function pgq.capture_rows(anyarray, text[]) '
        'set timezone = "Asia/Tokyo"';
"""


def test_a_cast_that_alters_settings_of_the_functions_changes_no_event(
    db: Database, app: Connection
) -> None:
    app.execute(HOSTILE.format(SETTINGS))
    db.main.one("select pgq.add_capture('q', 'po.t')")
    capture(db, "create table kv (id int primary key, price float8, at timestamptz)")
    ids = reserve(db.main)
    app.execute("insert into po.t values (1, 'red')")
    for zone in ("UTC", "Asia/Kolkata"):
        db.main.run(f"set timezone = '{zone}'; delete from kv")
        db.main.run("insert into kv values (1, 1234.5678, '2024-02-29 12:00:00+00')")
    chunk(db.main, ids)
    texts = [each.data for each in events(db) if each.type.startswith("public.kv")]
    assert texts == ['{"id":1,"price":1234.5678,"at":"2024-02-29T12:00:00+00:00"}'] * 4


EXCHANGE = """
    for prepared in select name from pg_prepared_statements loop
        execute format('deallocate %I', prepared);
        execute format('prepare %I (text, text, text[], bigint, int, int8multirange) as '
            'select 1, $6, 1::bigint, 1::bigint from po.told(null)', prepared);
    end loop;
"""


def test_a_cast_cannot_exchange_a_statement_of_the_copy(db: Database, app: Connection) -> None:
    app.execute(HOSTILE.format(EXCHANGE) + BEFORE_CATALOG)
    app.execute("alter table po.t add f text default repeat('x', 3000)")
    app.execute("insert into po.t select n, 'red' from generate_series(1, 600) n")
    db.main.one("select pgq.add_capture('q', 'po.t')")
    with pgqpy.connect(db.dsn) as client:
        captured = table_copy.find_capture(client, "po.t")
        places = list(table_copy.copy_table(client, captured, "po.t", (0, None), print))
    assert len(places) > 5  # psycopg prepares what runs so often
    assert places[-1].rows == 600
    assert set(db.main.all("select who from po.who")) == {("pgq_capture",)}


def said(db: Database) -> list[str]:
    """Return the levels of what the doctor finds wrong with the capture."""
    found = examine(db.main.connection)
    return [each.level for each in found if each.check == "capture" and each.level != "ok"]


def test_to_capture_takes_pgq_writer_and_the_table(db: Database, app: Connection) -> None:
    add, remove = "select pgq.add_capture('q', 'kv')", "select pgq.remove_capture('kv')"
    name = app.info.user
    for change in (
        "create table kv (id int primary key, v text)",
        f"alter table kv owner to {name}",
        f"alter table kv owner to current_user; grant pgq_writer to {name}",
    ):
        db.main.run(change)
        with refused("42501"):
            app.execute(add)
    db.main.run(f"grant trigger on kv to {name}")
    app.execute(add)
    with refused("42501"):
        app.execute(remove)
    db.main.run(f"alter table kv owner to {name}")
    app.execute(f"{add}; {remove}")
    assert app.execute("select from pgq.get_captures()").fetchall() == []


def test_to_copy_takes_pgq_admin_and_all_rows(db: Database, app: Connection) -> None:
    kv(db)
    ids, name = reserve(db.main), app.info.user
    query = "select rows from pgq.copy_chunk('q', 'kv', '{id}', 0, 9, %s)"
    for change in (
        f"grant pgq_writer to {name}; grant select on kv to {name}",
        f"grant pgq_admin to {name}; revoke select on kv from {name}",
        f"grant select on kv to {name}; alter table kv enable row level security",
    ):
        db.main.run(change)
        with refused("42501"):
            app.execute(query, [ids])
    db.main.run("alter table kv disable row level security")
    assert app.execute(query, [ids]).fetchone() == (2,)


@pytest.mark.parametrize("option", ["--format=plain", "--no-owner"])
def test_a_restored_database_captures_and_the_doctor_tells_of_lost_owners(
    own_server: EmbeddedServer, option: str
) -> None:
    with closing(Database(own_server.dsn())) as db:
        install(db.main.connection)
        db.queue()
        capture(db, "create table kv (id int primary key)")
        path = write_dump(own_server, db, option)
    with database(own_server, "copied") as copy:
        own_server.run("psql", "--quiet", "--set=ON_ERROR_STOP=1", "-d", copy.dsn, "-f", str(path))
        if option == "--no-owner":
            assert said(copy) == ["fail", "fail"]
            with refused("42501"):
                copy.main.run("insert into kv values (1)")
            install(copy.main.connection)
        assert said(copy) == []
        copy.main.run("insert into kv values (1)")
        assert events(copy) == [Event("public.kv.insert", '{"id":1}', "1")]
