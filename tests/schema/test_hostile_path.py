"""The engine calls no function that another role created in schema public."""

from __future__ import annotations

import pytest

CAUGHT = "select not rolsuper from pg_roles where rolname = 'hostile_stranger'"
TRAPS = [
    *(
        ("format", types, "text", "'x'")
        for types in ("text", "text, text", "text, text, text", "text, int, text", "text, int")
    ),
    ("txid_visible_in_snapshot", "bigint, text", "boolean", "true"),
    ("unnest", "text, text", "setof bigint", ""),
    ("quote_ident", "name", "text", "'x'"),
    ("split_part", "text, text, int", "text", "'x'"),
    ("pg_sequence_last_value", "oid", "bigint", "1"),
    ("concat", "text, text, text", "text", "'x'"),
]


OPERATORS = [
    (operator, types)
    for operator in ("=", "<>", "<", "<=", ">", ">=")
    for types in (("bigint", "bigint"), ("int", "int"))
]


@pytest.fixture(params=["public", "public, pg_catalog"])
def trapped(request, queue, sql, connect):
    """Put better matches for the engine's calls where an ordinary search_path finds them."""
    sql("create role hostile_stranger")
    sql("grant create on schema public to hostile_stranger")
    stranger = connect()
    stranger.execute("set session authorization hostile_stranger")
    for name, types, returns, value in TRAPS:
        body = f"begin alter role hostile_stranger superuser; return {value}; end"
        stranger.execute(
            f"create function public.{name}({types}) returns {returns} language plpgsql as"
            f" $${body}$$"
        )
    for number, (operator, (left, right)) in enumerate(OPERATORS):
        body = "begin alter role hostile_stranger superuser; return true; end"
        stranger.execute(
            f"create function public.trap_{number}({left}, {right}) returns boolean"
            f" language plpgsql as $${body}$$"
        )
        stranger.execute(
            f"create operator public.{operator}"
            f" (function = public.trap_{number}, leftarg = {left}, rightarg = {right})"
        )
    stranger.close()
    sql(f"set search_path = {request.param}")
    yield queue
    sql("reset search_path")
    sql("drop owned by hostile_stranger")
    sql("drop role hostile_stranger")


def test_a_superuser_reads_events_by_every_way_and_makes_and_drops_queues(
    trapped, connection, sql, rows, connect
):
    late = connect(autocommit=False)
    late.execute("select pgq.insert_event('q', 't', 'late')")
    sql("select pgq.insert_event('q', 't', 'd')")
    sql("select pgq.tick_queue('q')")
    batch = sql("select pgq.next_batch('q', 'c')")
    assert len(rows(sql("select pgq.batch_event_sql(%s)", batch))) == 1
    with connection.transaction():
        cursor = "select ev_data from pgq.get_batch_cursor(%s, %s, 10, %s)"
        assert rows(cursor, batch, "one", "ev_type = 't'") == [("d",)]
        assert rows(cursor, batch, "two", None) == [("d",)]
        assert rows("select ev_data from pgq.get_batch_cursor(%s, 'three', 10)", batch) == [("d",)]
    assert len(rows(sql("select pgq.tick_event_sql('q', 1, 2)"))) == 1
    late.rollback()
    sql("select pgq.finish_batch(%s)", batch)
    sql("select pgq.seq_getval('pgq.event_1_id_seq')")
    sql("select pgq.create_queue('r')")
    sql("select pgq.set_queue_config('r', 'ntables', '4')")
    sql("select count(*) from pgq.get_queue_info()")
    sql("select pgq.repair_queue('r')")
    sql("select pgq.drop_queue('r')")
    assert sql(CAUGHT)


@pytest.mark.parametrize("trigger", ["jsontriga", "logutriga", "sqltriga"])
def test_a_superuser_writes_tables_with_triggers_of_pgq(trapped, sql, trigger):
    sql("create table pg_temp.t (id int primary key, data text, size bigint)")
    sql(
        "create trigger it before insert or update or delete on pg_temp.t for each row execute"
        f" function pgq.{trigger}('q', 'backup', 'ignore=size', 'ev_extra3=data', 'when=true')"
    )
    for change in (
        "insert into pg_temp.t values (1, 'a b', 2)",
        "update pg_temp.t set data = 'new'",
        "delete from pg_temp.t",
    ):
        sql(change)
    assert sql("select count(*) operator(pg_catalog.=) 3 from pgq.event_1")
    assert sql(CAUGHT)
