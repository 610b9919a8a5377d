"""PGQ's triggers: the events of each argument; tests/compat compares them with PGQ's own."""

from __future__ import annotations

import psycopg
import pytest

TYPE = '{{"op":"{}","table":["public","t"],"pkey":["id"]}}'
TABLE = (
    "create table t (id int primary key, name text, amount numeric, paid boolean, at timestamptz)"
)
TRUNCATED = [
    ("jsontriga", TYPE.format("TRUNCATE"), "{}"),
    ("logutriga", "R", ""),
    ("sqltriga", "R", ""),
]


@pytest.fixture
def trigger(queue, sql):
    """Make a trigger on the table t: `trigger("jsontriga", "backup", when="before")`."""
    sql("set timezone = 'UTC'")
    sql(TABLE)

    def make(name: str, *args: str, when: str = "after", of: str = "row") -> None:
        what = "insert or update or delete" if of == "row" else "truncate"
        given = ", ".join("'" + arg.replace("'", "''") + "'" for arg in ("q", *args))
        sql(
            f"create or replace trigger it {when} {what} on t for each {of}"
            f" execute function pgq.{name}({given})"
        )

    return make


@pytest.fixture
def written(sql, rows):
    """Run statements, and return the events that they inserted."""

    def run(*statements: str) -> list[tuple[str, ...]]:
        for statement in statements:
            sql(statement)
        events = "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_1 order by ev_id"
        found = rows(events)
        sql("truncate pgq.event_1")
        return found

    return run


INSERT = "insert into t values (1, 'a b', 1.50, true, '2020-02-03 04:05Z')"


def test_rows_are_written_as_json(trigger, written):
    trigger("jsontriga", "backup")
    row = '{"id":1,"name":"a b","amount":"1.50","paid":true,"at":"2020-02-03T04:05:00+00:00"}'
    assert written(INSERT) == [(TYPE.format("INSERT"), row, "public.t", None)]
    new = row.replace("true", "null")
    found = written("update t set paid = null", "delete from t")
    assert found == [
        (TYPE.format("UPDATE"), new, "public.t", row),
        (TYPE.format("DELETE"), new, "public.t", None),
    ]


def test_rows_are_written_url_encoded(trigger, written):
    trigger("logutriga", "backup")
    row = "id=1&name=a+b&amount=1.50&paid=t&at=2020-02-03+04%3a05%3a00%2b00"
    assert written(INSERT) == [("I:id", row, "public.t", None)]
    new = row.replace("a+b", "%c3%a9%26").replace("paid=t", "paid")
    found = written("update t set name = '\u00e9&', paid = null", "delete from t")
    assert found == [("U:id", new, "public.t", row), ("D:id", new, "public.t", None)]


def test_changes_are_written_as_sql(trigger, written):
    trigger("sqltriga")
    found = written(
        INSERT,
        "update t set name = 'it''s \\', at = null",
        "update t set name = name",
        "delete from t",
    )
    assert [event[:2] for event in found] == [
        (
            "I",
            "(id,name,amount,paid,at) values ('1','a b','1.50','t','2020-02-03 04:05:00+00')",
        ),
        ("U", "name=E'it''s \\\\',at=NULL where id='1'"),
        ("U", "id='1' where id='1'"),
        ("D", "id='1'"),
    ]


def test_sql_that_is_written_repeats_the_change(trigger, written, sql, rows):
    trigger("sqltriga", "pkey=id,name")
    sql("create table copy (like t)")
    texts = {
        "I": "insert into copy {}",
        "U": "update copy set {}",
        "D": "delete from copy where {}",
    }
    for change in (
        INSERT,
        "insert into t values (2, null), (3, 'c\\d''e')",
        "update t set amount = id, at = null, paid = false",
        "delete from t where id < 3",
    ):
        for kind, data, *_ in written(change):
            sql(texts[kind].format(data))
        assert rows("select * from copy order by id") == rows("select * from t order by id")


def test_ignored_columns_are_left_out_and_their_changes_are_no_event(trigger, written):
    trigger("logutriga", "ignore=at, paid")
    found = written(INSERT, "update t set paid = false", "update t set paid = true, name = 'b'")
    assert [event[:2] for event in found] == [
        ("I:id", "id=1&name=a+b&amount=1.50"),
        ("U:id", "id=1&name=b&amount=1.50"),
    ]


def test_the_key_is_what_pkey_says(trigger, written, sql):
    trigger("sqltriga", "pkey=name,amount")
    found = written(INSERT, "update t set id = 2", "delete from t")
    assert [event[1] for event in found[1:]] == [
        "id='2' where name='a b' and amount='1.50'",
        "name='a b' and amount='1.50'",
    ]
    sql(INSERT)
    with pytest.raises(psycopg.errors.RaiseException, match="primary key update not allowed"):
        sql("update t set name = 'other'")
    sql("update t set amount = 1.5")  # written otherwise, and equal


def test_expressions_set_the_fields_and_decide_whether_there_is_an_event(trigger, written, sql):
    sql("create function public.twice(numeric) returns numeric language sql as 'select $1 * 2'")
    trigger("jsontriga", "ev_type=lower(name)", "ev_data=twice(amount)", "ev_extra1=paid",
        "ev_extra2=null", "when=name <> 'quiet'")  # fmt: skip
    found = written(INSERT, "update t set name = 'quiet'", "delete from t")
    assert found == [("a b", "3.00", "t", None)]


def test_expressions_run_with_the_rights_of_the_role_that_writes(trigger, written, sql):
    trigger("jsontriga", "ev_type=current_user")
    sql("grant all on t to pgq_writer")
    found = written("set role pgq_writer", INSERT, "reset role")
    assert [event[0] for event in found] == ["pgq_writer"]


def test_magic_columns_set_the_fields(trigger, written, sql):
    sql("alter table t add _pgq_ev_type text default 'mine', add _pgq_ev_extra2 int")
    trigger("logutriga", "ignore=amount,paid,at", "ev_extra2='of an argument'")
    assert written(INSERT) == [("mine", "id=1&name=a+b", "public.t", "of an argument")]


@pytest.mark.parametrize("word", ["SKIP", "skip"])
def test_a_trigger_with_skip_writes_the_event_and_not_the_row(trigger, written, sql, word):
    trigger("jsontriga", word, when="before")
    assert len(written(INSERT)) == 1
    assert sql("select count(*) from t") == 0


def test_a_before_trigger_without_skip_writes_the_row(trigger, written, rows):
    trigger("jsontriga", when="before")
    assert len(written(INSERT, "update t set name = 'new'")) == 2
    assert rows("select name from t") == [("new",)]
    assert len(written("delete from t")) == 1
    assert rows("select name from t") == []


@pytest.mark.parametrize(("name", "kind", "data"), TRUNCATED)
def test_truncate_is_an_event(trigger, written, name, kind, data):
    trigger(name, of="statement")
    assert written("truncate t") == [(kind, data, "public.t", None)]


def test_local_sessions_write_no_events(trigger, written, sql):
    trigger("jsontriga", "SKIP", when="before")
    assert written("set session_replication_role = local", INSERT) == []
    assert sql("select count(*) from t") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("deny",), r"Table 'public.t' to queue 'q': change not allowed \(INSERT\)"),
        (("bakup",), "bad param to pgq trigger"),
        (("SKIP",), "SKIP does not work in AFTER trigger."),
        (("when=id",), "when= query result must be boolean, got=23"),
        (("when=null::boolean",), "when= should not be NULL"),
    ],
)
def test_triggers_refuse_what_pgqs_refuse(trigger, sql, args, message):
    trigger("jsontriga", *args)
    with pytest.raises(psycopg.errors.RaiseException, match=message):
        sql(INSERT)


@pytest.mark.parametrize("arg", ["ignore=name", "pkey=name", "backup", "when=true"])
def test_triggers_of_truncate_refuse_what_needs_a_row(trigger, sql, arg):
    trigger("sqltriga", arg, of="statement")
    with pytest.raises(psycopg.errors.RaiseException, match="not make sense for truncate"):
        sql("truncate t")


def test_a_table_without_key_has_inserts_only(trigger, written, sql):
    sql("alter table t drop constraint t_pkey")
    trigger("logutriga")
    assert [event[0] for event in written(INSERT)] == ["I:"]
    with pytest.raises(psycopg.errors.RaiseException, match="Update/Delete on table without pkey"):
        sql("delete from t")


def test_one_session_writes_tables_of_all_shapes(queue, sql, rows):
    """What a session keeps of a function fits every table, and every change of it."""
    for number, columns in enumerate(["id int", "x text, id int", "id int, y json[], z xid"]):
        sql(f"create table t{number} ({columns}, primary key (id))")
        sql(
            f"create trigger it after insert on t{number} for each row"
            " execute function pgq.jsontriga('q')"
        )
    for _ in range(7):  # plans are kept from the sixth call on
        for table in ("t0", "t1", "t2"):
            sql(f"insert into {table} (id) select count(*) from {table}")
    sql("alter table t0 add w text default 'new', alter id type bigint")
    sql("insert into t0 values (7)")
    found = rows("select ev_data from pgq.event_1 order by ev_id desc limit 2")
    assert found == [('{"id":7,"w":"new"}',), ('{"id":6,"y":null,"z":null}',)]
