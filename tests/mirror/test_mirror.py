"""A mirror has the source's rows, whatever happened to them."""

from __future__ import annotations

import psycopg
import pytest

import pgqpy
from pgqpy.errors import PgqError
from tests.mirror.conftest import FENCE, ITEM, NAME, QUEUE

TYPES = """
create type mood as enum ('good', 'bad');
create type pair as (a int, b text);
create domain cents as bigint;
create table thing (
    id bigint primary key, t text, v varchar(9), c char(5), b bytea, n numeric, m numeric(30,10),
    r real, d double precision, y boolean, ts timestamp, tz timestamptz, dt date, tm time,
    tmz timetz, iv interval, j json, jb jsonb, u uuid, ia int[], ta text[], na numeric[],
    tza timestamptz[], ra int4range, rm nummultirange, ip inet, bt bit varying, p point,
    mo mood, pr pair, ce cents, ba bytea[], mm mood[], pa pair[], ts2 tsvector, l pg_lsn);
"""
ROWS = r"""
insert into thing (id, t, v, c, b, n, m, r, d, y, ts, tz, dt, tm, tmz, iv, j, jb, u, ia, ta, na,
    tza, ra, rm, ip, bt, p, mo, pr, ce, ba, mm, pa, ts2, l)
values
    (1, E'a\nb"\\\t''é🐘', 'v', 'c', '\x00ff', 12345678901234567890.12345678901234567890,
     1.5, 0.1, 0.1::float8 + 0.2, true, '2026-02-28 23:59:59.123456', '2026-02-28 23:59:59.1+05:30',
     '0044-03-15 BC', '24:00', '12:00:00.5+02', '-1 year -2 days +03:04:05.6',
     '{"a":  1.10, "b": [1e400, "\u00e9"], "a": null}', '{"a": 1.10}',
     'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{{1,2},{3,null}}', '{"",null,"null","a,b\"{}"}',
     '{1.10,NaN}', '{infinity,"2026-01-01 00:00:00.000001+00"}', '[1,5)', '{[1.5,2],(3,)}',
     '10.0.0.1/8', '10101', '(1.5,-2)', 'bad', '(1,"x,y")', 9223372036854775807,
     '{"\\x0001",null}', '{good,bad}', '{"(1,a)","(,\"b c\")"}', '''a b'':1 c',
     '16/B374D848'),
    (2, null, null, null, '', 'NaN', null, 'NaN', 'Infinity', false, 'infinity', '-infinity',
     'infinity', null, null, '0', '"x"', '"null"', null, '{}', '{}', null, null, 'empty', '{}',
     '::1', '', null, null, null, null, '{}', '{}', '{}', '', null),
    (3, '', '', '', null, 'Infinity', null, '1e-45', '1e308', null, null, null, null, null, null,
     null, '{}', null, null, null, null, null, null, null, null, null, null, null, null, null,
     null, null, null, null, null, null)
"""


def test_every_change_arrives(shop, items):
    with shop.running():
        shop.source.execute("insert into item select n, 'item', n from generate_series(1, 9) n")
        shop.wait()
        shop.source.execute("update item set price = price * 1.1 where id < 4")
        shop.source.execute("delete from item where id in (3, 5)")
        shop.source.execute("update item set id = 50 where id = 9")
        shop.wait()
        shop.assert_same("item")
        assert [row[0] for row in items()] == [1, 2, 4, 6, 7, 8, 50]
        shop.source.execute("""
            insert into item values (60, 'gone', 0);
            truncate item;
            insert into item values (3, 'new', null)""")
        shop.wait()
    assert items() == [(3, "new", None)]


def test_many_changes_of_one_key_end_as_the_last_one(shop, items):
    shop.source.execute("""
        insert into item values (1, 'a', 1), (2, 'b', 2);
        update item set price = 3;
        delete from item where id = 2;
        insert into item values (2, 'c', 4);
        update item set id = 3 where id = 1;
        update item set name = 'd'""")
    shop.run()
    shop.assert_same("item")
    assert len(items()) == 2


def test_values_of_every_type_arrive_exactly(shop):
    shop.capture("public.thing", TYPES)
    shop.source.execute("set timezone = 'Asia/Tokyo'; set datestyle = 'German'")
    shop.source.execute(ROWS.encode())
    shop.source.execute("update thing set v = 'w' where id = 1")
    shop.run()
    shop.source.execute("reset all")
    shop.assert_same("thing")


def test_a_commit_waits_for_the_disk_whatever_is_the_default_of_the_target(shop, items):
    name = shop.target.info.dbname
    shop.target.execute(f'alter database "{name}" set synchronous_commit = off'.encode())
    shop.target.execute("""
        alter table item add column waits text default current_setting('synchronous_commit')""")
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.run()
    assert items() == [(1, "a", 1, "on")]


def test_a_key_of_two_columns_and_quoted_names(shop):
    definition = """
        create schema "My Shop";
        create table "My Shop"."Line.1" (
            "Order" int, no text, "a""b" int, primary key (no, "Order"))"""
    shop.capture('"My Shop"."Line.1"', definition)
    shop.source.execute("""
        insert into "My Shop"."Line.1" values (1, 'a', 1), (1, 'b', 2), (2, '["a"]', 3);
        delete from "My Shop"."Line.1" where no = 'b';
        update "My Shop"."Line.1" set no = 'c' where no = 'a'""")
    shop.run()
    shop.assert_same('"My Shop"."Line.1"')


def test_the_target_chooses_columns_and_keeps_its_own(shop):
    shop.capture("public.item", ITEM, mirrored=False)
    shop.target.execute("""
        create table item (note text default 'own', id int primary key, price numeric,
                           twice numeric generated always as (price * 2) stored)""")
    shop.source.execute("insert into item values (1, 'a', 1), (2, 'b', 2)")
    with shop.running():
        shop.wait()
        shop.target.execute("update item set note = 'mine' where id = 1")
        shop.source.execute("update item set price = 5")
        shop.source.execute("alter table item add column note2 int default 7")
        shop.source.execute("insert into item values (3, 'c', 3)")
        shop.wait()
    found = shop.target.execute("select note, id, price, twice from item order by id").fetchall()
    assert found == [("mine", 1, 5, 10), ("own", 2, 5, 10), ("own", 3, 3, 6)]


def test_a_column_added_in_the_middle_of_a_batch_is_written_where_it_is(shop, items):
    shop.target.execute("alter table item add column stock int default 100")
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.source.execute("alter table item add column stock int")
    shop.source.execute("insert into item values (2, 'b', 2, 5)")
    shop.run()
    assert items() == [(1, "a", 1, 100), (2, "b", 2, 5)]


def test_identity_and_generated_columns(shop):
    shop.capture(
        "public.doc",
        """
        create table doc (id int generated always as identity primary key, a int,
                          b int generated always as (a + 1) stored)""",
    )
    shop.source.execute("insert into doc (a) values (1), (2)")
    shop.source.execute("update doc set a = 5 where id = 1")
    shop.run()
    shop.assert_same("doc")


def test_constraints_that_can_wait_are_checked_at_the_end(shop):
    shop.capture("public.item", "create table item (id int primary key, name text)", mirrored=False)
    shop.capture("public.line", "create table line (id int primary key, item int)", mirrored=False)
    shop.target.execute("""
        create table item (id int primary key, name text unique deferrable);
        create table line (id int primary key, item int references item deferrable)""")
    with shop.running():
        shop.source.execute("insert into line values (1, 1), (2, 2)")
        shop.source.execute("insert into item values (1, 'a'), (2, 'b')")
        shop.wait()
        shop.source.execute("""
            update item set name = 'c' where id = 2;
            update item set name = 'b' where id = 1;
            update item set name = 'a' where id = 2;
            insert into item values (3, 'c');
            delete from item where id = 1;
            delete from line where item = 1""")
        shop.wait()
    shop.assert_same("item")
    shop.assert_same("line")


def test_a_truncate_empties_a_table_that_a_foreign_key_references(shop, items):
    shop.target.execute("create table line (item int references item deferrable)")
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.run()
    shop.source.execute("truncate item; insert into item values (2, 'b', 2)")
    shop.run()
    assert items() == [(2, "b", 2)]


def test_only_the_tables_that_are_named_are_mirrored(shop, items):
    shop.capture("public.other", "create table other (id int primary key)", mirrored=False)
    shop.client.insert_event(QUEUE, "order.placed", "no JSON")
    shop.source.execute("insert into other values (1); insert into item values (1, 'a', 1)")
    shop.target.execute("create schema copy; create table copy.things (like item including all)")
    tables = {"public.item": "copy.things"}
    shop.run(tables=tables)
    for _ in range(3):
        shop.client.tick_queue(QUEUE)  # no change of these tables
    shop.source.execute("insert into item values (2, 'b', 2)")
    shop.run(tables=tables)
    copied = shop.target.execute("select id, name from copy.things order by id").fetchall()
    assert copied == [(1, "a"), (2, "b")]
    assert items() == []


def test_a_table_that_is_named_has_to_be_captured(shop):
    with pytest.raises(pgqpy.PgqError, match=r"does not capture public\.itme"):
        shop.mirror(tables=["public.itme"]).run()


def test_events_that_are_no_changes_are_passed_over(shop, items):
    shop.client.insert_event(QUEUE, "order.placed", "no JSON")
    shop.client.insert_event(QUEUE, None, None)
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.run()
    assert len(items()) == 1


def test_a_table_that_is_captured_or_released_meanwhile_is_mirrored(shop, items):
    shop.source.execute("insert into item values (1, 'a', 1)")
    with shop.running():
        shop.wait()
        shop.capture("public.late", "create table late (id int primary key)")
        shop.source.execute("insert into late values (1)")
        shop.source.execute("insert into item values (2, 'b', 2)")
        shop.source.execute("select pgq.remove_capture('item')")
        shop.wait()
    shop.assert_same("late")
    assert len(items()) == 2


def test_an_array_of_json_stops_the_mirror_unless_it_is_text_in_the_target(shop):
    shop.capture("public.item", "create table item (id int primary key, docs jsonb[])")
    shop.target.execute("alter table item add own jsonb[]")  # a column that the source lacks
    shop.source.execute("insert into item values (1, array['[1, 2]'::jsonb])")
    shop.tick()
    with pytest.raises(PgqError, match="has an array of JSON in the target, the column docs: make"):
        shop.mirror().run()
    shop.target.execute("alter table item alter docs type text")
    shop.run()
    assert shop.target.execute("select docs::json ->> 0 from item").fetchone() == ("[1, 2]",)


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        ("", "table public.item is missing in the target"),
        (
            "create table item (id int, name text primary key)",
            "table public.item has no unique key (id)",
        ),
        ("create table item (id int, name text, unique (id) deferrable)", "has no unique key (id)"),
        ("create view item as select 1 as id", "has no unique key (id)"),
    ],
)
def test_a_target_table_that_does_not_fit_stops_the_mirror(shop, there, problem):
    shop.capture("public.item", ITEM, mirrored=False)
    if there:
        shop.target.execute(there.encode())
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.tick()
    mirror = shop.mirror()
    with pytest.raises(PgqError) as caught:
        mirror.run()
    assert problem in str(caught.value)
    assert "pgqpy capture ddl public.item" in str(caught.value)
    assert mirror.handler_error is caught.value
    kind = "view" if there.startswith("create view") else "table"
    shop.target.execute(f"drop {kind} if exists item".encode())
    shop.target.execute(ITEM)
    shop.run()
    shop.assert_same("item")


def test_an_error_of_the_target_stops_it_and_leaves_the_batch(shop, items):
    shop.target.execute("alter table item add check (price < 100)")
    shop.source.execute("insert into item values (1, 'a', 1), (2, 'b', 200)")
    shop.tick()
    with pytest.raises(psycopg.errors.CheckViolation):
        shop.mirror().run()
    assert items() == []
    assert shop.client.get_dead_events(QUEUE, NAME) == []
    shop.target.execute("alter table item drop constraint item_price_check")
    shop.run()
    shop.assert_same("item")


def test_a_target_that_is_not_there_at_the_start_is_reported(shop):
    mirror = pgqpy.Mirror(shop.dsn, queue=QUEUE, name=NAME, target=f"{shop.target_dsn}_gone")
    with pytest.raises(pgqpy.ConnectionFailed):
        mirror.run()


UNWANTED = {"filter": {"type": ["public.item.*"]}}


def test_settings_that_make_no_sense_are_refused(shop, monkeypatch):
    monkeypatch.delenv("PGQPY_TARGET", raising=False)
    with pytest.raises(ValueError, match="PGQPY_TARGET"):
        pgqpy.Mirror("", queue=QUEUE, name=NAME)
    monkeypatch.setenv("PGQPY_TARGET", shop.target_dsn)
    assert pgqpy.Mirror("", queue=QUEUE, name=NAME).target == shop.target_dsn
    for wrong in (
        {"shared": True},
        {"on_error": "retry"},
        {"tables": ["item"]},
        {"tables": "a.b"},
        UNWANTED,
    ):
        with pytest.raises(ValueError, match="Mirror"):
            pgqpy.Mirror("", queue=QUEUE, name=NAME, **wrong)


def test_the_fence_is_made_at_the_first_run_and_follows(shop, items):
    shop.source.execute("insert into item values (1, 'a', 1)")
    shop.run()
    first = shop.target.execute(FENCE).fetchall()
    shop.source.execute("insert into item values (2, 'b', 2)")
    shop.run()
    second = shop.target.execute(FENCE).fetchall()
    assert len(first) == len(second) == 1
    assert first < second
