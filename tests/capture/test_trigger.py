"""Each change of a captured table is an event, in the order of its key's changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.capture.captured import Event, capture, chunk, events, kv, mirrored, reserve
from tests.capture.test_tables import PARTS
from tests.guarantees.sessions import refused
from tests.support.gates import wait_until_blocked

if TYPE_CHECKING:
    from tests.guarantees.sessions import Database

MERGE = """
    merge into kv using (values (1), (2), (3)) s (id) on s.id = kv.id
    when matched and s.id = 1 then update set v = 'x' when matched then delete
    when not matched then insert values (s.id, 'x')"""
UPSERT = "insert into kv values (1, 'x'), (3, 'x') on conflict (id) do update set v = 'x'"


def row(number: int, text: str) -> str:
    """Return the data of an event of kv."""
    return f'{{"id":{number},"v":"{text}"}}'


def changes(db: Database) -> str:
    """Return what each event is, and its key."""
    return ", ".join(f"{event.type.rpartition('.')[2]} {event.key}" for event in events(db))


def test_every_kind_of_change_is_an_event(db: Database) -> None:
    kv(db)
    db.main.run("insert into kv values (3, 'b'); update kv set v = 'c' where id = 1")
    db.main.run("delete from kv where id = 3")
    db.main.run("truncate kv")
    assert events(db) == [
        Event("public.kv.insert", row(3, "b"), "3"),
        Event("public.kv.update", row(1, "c"), "1", row(1, "old")),
        Event("public.kv.delete", row(3, "b"), "3"),
        Event("public.kv.truncate", None, None),
    ]


STATEMENTS = {
    UPSERT: "update 1, insert 3",
    MERGE: "update 1, delete 2, insert 3",
    "insert into kv values (1, 'x') on conflict do nothing": "",
    "update kv set id = id + 10": "delete 1, insert 11, delete 2, insert 12",
    "update kv set v = v": "update 1, update 2",
    "begin; savepoint a; delete from kv; rollback to a; commit": "",
    "with gone as (delete from kv returning *) select from gone": "delete 1, delete 2",
    "truncate kv": "truncate None",
    "copy kv from program 'printf 3,c' (format csv)": "insert 3",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_of_several_changes(db: Database, statement: str) -> None:
    if statement is MERGE and db.main.connection.info.server_version < 150000:
        return  # PostgreSQL 14 has no MERGE
    kv(db)
    ids = reserve(db.main)
    db.main.run(statement)
    assert changes(db) == STATEMENTS[statement]
    chunk(db.main, ids)
    assert len(mirrored(db)) == db.main.one("select count(*) from kv")


def test_a_key_of_several_columns_is_a_json_array_of_texts(db: Database) -> None:
    capture(db, 'create table kv (b text, "A" int, primary key ("A", b))')
    ids = reserve(db.main)
    db.main.run("""insert into kv values ('x,"y', 1), ('', 2); update kv set b = 'z'""")
    db.main.one("select rows from pgq.copy_chunk('q', 'kv', '{A,b}', 0, 9, %s)", ids)
    ones, twos = ['["1", "x,\\"y"]', '["1", "z"]'], ['["2", ""]', '["2", "z"]']
    keys = [event.key for event in events(db)]
    assert keys == [ones[1], twos[1], ones[0], twos[0], *ones, *twos]


def test_names_that_need_quotes(db: Database) -> None:
    table, key, name = '"My Shop"."o.r\'d""%s"', '"K%s\'\\"', "My Shop.o.r'd\"%s"
    ddl = f'create schema "My Shop"; create table {table} ({key} text primary key, "a b" int)'
    capture(db, ddl, table)
    ids = reserve(db.main)
    db.main.run(f"insert into {table} values ('x', 1)")
    query = "select rows from pgq.copy_chunk('q', %s, %s, 0, 9, %s)"
    assert db.main.one(query, table, [key.strip('"')], ids) == 1
    copied, inserted = events(db)
    assert (copied.type, copied.key) == (f"{name}.snapshot", "x")
    assert inserted == copied._replace(type=f"{name}.insert")
    assert db.main.all("select table_name, problems from pgq.get_captures()") == [(name, [])]
    assert db.main.one("select pgq.remove_capture(%s)", table) == 1


def test_changes_of_partitions_are_events_of_the_parent(db: Database) -> None:
    capture(db, PARTS, "p")
    ids = reserve(db.main)
    db.main.run("insert into p values (1, 1), (11, 1); insert into p3 values (12, 1)")
    for table in ("p1", "p3"):
        ids = chunk(db.main, ids, table)[1]
    db.main.run("update p set id = 13 where id = 1; delete from p3 where id = 12")
    db.main.run("create table p4 partition of p for values from (20) to (30)")
    db.main.run("insert into p values (21, 1); update p4 set n = 2; truncate p")
    assert {event.type.rpartition(".")[0] for event in events(db)} == {"public.p"}
    assert changes(db) == (
        "snapshot 1, snapshot 11, snapshot 12, insert 1, insert 11, insert 12, "
        "delete 1, insert 13, delete 12, insert 21, update 21, truncate None"
    )


def test_a_row_that_an_after_trigger_changes_again_is_in_order(db: Database) -> None:
    capture(db, """
        create table kv (id int primary key, v text);
        create function again() returns trigger language plpgsql as $$
            begin
                update kv set v = v || '+' where id = new.id and v not like '%+';
                return null;
            end $$;
        create trigger "  again" after insert or update on kv for each row when (false)
            execute function again();
        create trigger again after insert or update on kv for each row execute function again()
    """)  # fmt: skip
    db.main.run("insert into kv values (1, 'a'), (2, 'b'); update kv set v = 'c' where id = 1")
    assert sorted(each["v"] for each in mirrored(db).values()) == ["b+", "c+"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_sessions_that_change_a_row_are_in_the_order_of_their_commits(
    db: Database, end: str
) -> None:
    kv(db)
    one, other = db.open(), db.open()
    one.run("begin; update kv set v = 'one' where id = 1")
    waits = other.later("update kv set v = v || '+other' returning v")
    assert wait_until_blocked(db.main.connection, other.pid) == [one.pid]
    one.run(end)
    assert waits.result(timeout=30)
    assert mirrored(db)["1"]["v"].endswith("+other")


TYPES = """
    create type mood as enum ('so so'); create type pair as (a int, b text[]);
    create table kv (
        id int primary key, at timestamptz, day date, plain timestamp, took interval, raw bytea,
        exact numeric, single real, twice double precision, yes boolean, list int[], moods mood[],
        duo pair, doc jsonb, old json, span tstzrange, net inet, bits bit(3), u uuid,
        made int generated always as (id * 2) stored)"""
VALUES = """
    insert into kv values (
        {}, '2024-02-29 12:00:00.000001+05', '0044-03-15 BC', 'infinity', '1 mon -3 days 04:05:06',
        '\\x00ff27', 1.10, 0.1::float4 + 0.2::float4, 0.1::float8 + 0.2::float8, true, '{{1,NULL}}',
        '{{so so}}', row(1, array['a"b', null]), '{{"b": 1, "a": [1.10]}}', ' {{"z":1, "z":2}}',
        '[2024-01-01 00:00+00,)', '10.0.0.1/8', B'101', '{}')"""
UUID = "12345678-1234-5678-1234-567812345678"
SETTINGS = [
    "datestyle = 'German'", "timezone = 'Asia/Kolkata'", "intervalstyle = 'iso_8601'",
    "bytea_output = 'escape'", "extra_float_digits = -15", "search_path = pg_catalog",
    "quote_all_identifiers = on", "array_nulls = off",
]  # fmt: skip
HOSTILE = "".join(f"set {setting};" for setting in SETTINGS)
EXACT = {
    "at": "2024-02-29T07:00:00.000001+00:00", "day": "0044-03-15 BC", "plain": "infinity",
    "took": "1 mon -3 days +04:05:06", "raw": "\\x00ff27", "exact": 1.10,
    "single": 0.3, "twice": 0.30000000000000004, "yes": True, "list": [1, None],
    "moods": ["so so"], "duo": {"a": 1, "b": ['a"b', None]}, "doc": {"a": [1.1], "b": 1},
    "old": {"z": 2}, "span": '["2024-01-01 00:00:00+00",)', "net": "10.0.0.1/8", "bits": "101",
    "u": UUID,
}  # fmt: skip


def test_values_have_one_text_whatever_the_settings_of_the_session_are(db: Database) -> None:
    capture(db, TYPES)
    ids = reserve(db.main)
    db.main.run(VALUES.format(1, UUID))
    for setting in SETTINGS:  # each alone, then all together
        db.main.run(f"set {setting}; update public.kv set id = 2; update public.kv set id = 1")
        db.main.run(f"reset {setting.split()[0]}")
    db.main.run(HOSTILE)
    db.main.run("update public.kv set id = 2; update public.kv set id = 1")
    chunk(db.main, ids)
    of_one = [str(event.data) for event in events(db) if event.key == "1"]
    insert = of_one[0]
    assert of_one == [insert] * (1 + 1 + 2 * (len(SETTINGS) + 1))
    data = json.loads(insert)
    assert (data.pop("id"), data.pop("made")) == (1, 2)
    assert data == {**EXACT, "single": pytest.approx(0.3)}
    assert ' {"z":1, "z":2}' in insert
    assert '"exact":1.10' in insert
    assert db.main.one("show datestyle") == "German, DMY"


@pytest.mark.parametrize(
    ("kind", "value", "key"),
    [
        ("timestamptz", "2024-02-29 12:00:00.5+05", "2024-02-29T07:00:00.5+00:00"),
        ("float8", "0.1", "0.1"),
        ("bytea", "\\x00ff", "\\x00ff"),
        ("numeric", "1.10", "1.10"),
        ("jsonb", '{"b":1, "a":"\\u00e9"}', '{"a": "é", "b": 1}'),
        ("text", "\\u0000 \t\"'", "\\u0000 \t\"'"),
    ],
)
def test_a_key_has_the_same_text_in_changes_and_copies(
    db: Database, kind: str, value: str, key: str
) -> None:
    capture(db, f"create table kv (id {kind} primary key, v json)")
    ids = reserve(db.main)
    db.main.run(HOSTILE)
    for document in ("1", '"\\u0000"', '"\\ud800"'):
        db.main.one("insert into public.kv values (%s, %s) returning 1", value, document)
        db.main.run("delete from public.kv")
    db.main.one("insert into public.kv values (%s, %s) returning 1", value, '"\\u0000"')
    chunk(db.main, ids)
    assert [event.key for event in events(db)] == [key] * 8


def test_json_that_no_operator_reads_fails_no_write(db: Database) -> None:
    capture(db, "create table kv (a int, b text, j json, primary key (a, b))")
    db.main.one("insert into kv values (1, '\\u0000', %s) returning 1", '{"\\u0000": "\\ud800"}')
    db.main.run("update kv set j = '1'; update kv set j = '\"\\ud800\"'; delete from kv")
    assert {event.key for event in events(db)} == {'["1", "\\\\u0000"]'}


@pytest.mark.parametrize("always", [False, True])
def test_what_replication_writes_is_captured_only_if_that_is_wanted(
    db: Database, always: bool
) -> None:
    db.main.run("create table kv (id int primary key, v text)")
    db.main.one("select pgq.add_capture('q', 'kv', %s)", always)
    db.main.run("set session_replication_role = replica; insert into kv values (1); truncate kv")
    assert changes(db) == ("insert 1, truncate None" if always else "")
    assert db.main.one("select always from pgq.get_captures()") is always


@pytest.mark.parametrize(
    ("setting", "value", "sqlstate"),
    [("disable_insert", "1", "PQ006"), ("per_tx_limit", "1", "PQ007")],
)
def test_the_error_of_a_write_names_the_trigger_and_the_command(
    db: Database, setting: str, value: str, sqlstate: str
) -> None:
    kv(db)
    db.main.one("select pgq.set_queue_config('q', %s, %s)", setting, value)
    hint = 'the trigger "!pgq_capture" of the table inserts it: see pgqpy capture list;'
    with refused(sqlstate) as failed:
        db.main.run("insert into kv values (3, 'c'), (4, 'd')")
    assert failed.value.diag.message_hint == f"{hint} pgqpy capture remove TABLE ends that"


def test_a_write_fails_when_a_column_of_the_key_is_renamed_or_null(db: Database) -> None:
    kv(db)
    db.main.run("alter table kv rename id to nr")
    with refused("42703") as failed:
        db.main.run("delete from kv")
    assert "pgqpy capture add" in str(failed.value.diag.message_hint)
    db.main.one("select pgq.add_capture('q', 'kv')")
    db.main.run("delete from kv where nr = 1")
    assert changes(db) == "delete 1"
    db.main.run("alter table kv drop constraint kv_pkey, alter nr drop not null")
    with refused("42703"):
        db.main.run("update kv set nr = null")
