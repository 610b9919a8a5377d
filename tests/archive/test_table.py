"""An archive in a table: rows and position are committed together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import pgqpy
from pgqpy.archive import ArchiveMismatch
from pgqpy.archive.run import ArchiveOptions
from pgqpy.archive.table import TableName, parse_table, run_table

if TYPE_CHECKING:
    from tests.archive.shop import Shop

TABLE = "table:public.kept"


def run(shop: Shop, location: str = TABLE, **options: Any) -> tuple[int, int]:
    wanted = ArchiveOptions("orders", **options)
    return run_table(wanted, parse_table(location), shop.dsn, shop.said.append)


def rows(shop: Shop) -> list[tuple[Any, ...]]:
    query = """
        select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from public.kept order by to_tick, ev_id"""
    return shop.client.connection.execute(query).fetchall()


def data(shop: Shop) -> list[str]:
    return [row[5] for row in rows(shop)]


def test_the_table_holds_the_events_of_the_queue(shop: Shop) -> None:
    shop.insert("a", "b", extra1="x")
    shop.insert("c")
    assert run(shop, max_events=1) == (2, 3)
    live = shop.client.get_tick_events("orders", 1, shop.last_tick)
    assert rows(shop) == [tuple(event) for event in live]
    assert run(shop) == (0, 0)
    shop.insert("d")
    assert run(shop) == (1, 1)
    assert data(shop) == ["a", "b", "c", "d"]
    assert shop.position == shop.last_tick


def test_a_range_that_cannot_be_inserted_moves_nothing(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    before = shop.position
    shop.client.connection.execute("alter table kept add check (ev_data <> 'b')")
    shop.insert("b")
    with pytest.raises(psycopg.errors.CheckViolation):
        run(shop)
    assert shop.position == before
    assert data(shop) == ["a"]


def test_a_move_that_fails_inserts_nothing(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    shop.insert("b")
    refuse = """
        create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'no'; end $$;
        create trigger refuse before insert on pgq.position execute function refuse()"""
    shop.client.connection.execute(refuse)
    with pytest.raises(pgqpy.PgqError, match="no"):
        run(shop)
    assert data(shop) == ["a"]
    shop.client.connection.execute("drop function refuse cascade")
    run(shop)
    assert data(shop) == ["a", "b"]


def test_an_unregistered_consumer_goes_on_where_the_rows_end(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    shop.client.unregister_consumer("orders", "archive")
    shop.insert("b")
    run(shop)
    assert data(shop) == ["a", "b"]


def test_a_consumer_that_was_moved_back_does_not_double_rows(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    shop.client.register_consumer_at("orders", "archive", 1)
    with pytest.raises(ArchiveMismatch, match="moved back"):
        run(shop)
    assert data(shop) == ["a"]


def test_a_consumer_of_batches_is_not_taken_for_an_archive(shop: Shop) -> None:
    shop.client.register_consumer("orders", "archive")
    with pytest.raises(ArchiveMismatch, match="reads batches"):
        run(shop)


def test_a_table_that_is_gone_is_not_made_again(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    shop.client.connection.execute("drop table kept")
    shop.insert("b")
    with pytest.raises(ArchiveMismatch, match=r"table public\.kept does not exist"):
        run(shop)
    run(shop, new=True)
    assert data(shop) == ["b"]


def test_two_runs_at_once_are_refused(shop: Shop) -> None:
    shop.insert("a")
    run(shop)
    with pgqpy.connect(shop.dsn) as other:
        other.connection.execute("select pg_advisory_lock(7366514, sub_id) from pgq.subscription")
        with pytest.raises(pgqpy.ConsumerRunning):
            run(shop)


@pytest.mark.parametrize(
    "make",
    [
        "create unlogged table kept (queue_id int, to_tick bigint)",
        "create view kept as select 1 as queue_id, 1 as to_tick",
        """create table kept (queue_id int, to_tick bigint) partition by list (queue_id);
        create unlogged table one partition of kept for values in (1)""",
    ],
)
def test_a_table_that_may_lose_rows_is_refused(shop: Shop, make: str) -> None:
    shop.insert("a")
    shop.client.connection.execute(make.encode())
    with pytest.raises(ArchiveMismatch, match="not an ordinary logged table"):
        run(shop)


@pytest.mark.parametrize(
    ("trap", "why"),
    [
        ("alter table kept.events owner to stranger", "belongs to role stranger"),
        ("alter schema kept owner to stranger", "in a schema of role stranger"),
        (
            """grant trigger on kept.events to stranger; grant usage on schema kept to stranger;
            set role stranger; create trigger trap before insert on kept.events
            execute function suppress_redundant_updates_trigger(); reset role""",
            "has triggers",
        ),
    ],
    ids=["owner", "schema", "trigger"],
)
def test_a_table_in_reach_of_a_role_that_need_not_be_trusted_is_refused(
    shop: Shop, trap: str, why: str
) -> None:
    shop.insert("a")
    execute = shop.client.connection.execute
    execute("create role stranger; create schema kept")
    try:
        run(shop, "table:kept.events")
        shop.insert("b")
        execute(trap.encode())
        with pytest.raises(ArchiveMismatch, match=why):
            run(shop, "table:kept.events")
        assert execute("select ev_data from kept.events").fetchall() == [("a",)]
    finally:
        execute("drop schema kept cascade; drop owned by stranger; drop role stranger")


def test_a_role_that_reads_may_archive_where_it_may_create(shop: Shop) -> None:
    shop.insert("a")
    execute = shop.client.connection.execute
    execute("create role keeper login; grant pgq_reader to keeper; create schema keeps")
    try:
        execute("grant usage, create on schema keeps to keeper")
        wanted = ArchiveOptions("orders")
        dsn = psycopg.conninfo.make_conninfo(shop.dsn, user="keeper")
        run_table(wanted, parse_table("table:keeps.events"), dsn, shop.said.append)
        assert execute("select ev_data from keeps.events").fetchall() == [("a",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            elsewhere = ArchiveOptions("orders", new=True)
            run_table(elsewhere, parse_table("table:public.events"), dsn, shop.said.append)
    finally:
        execute("drop owned by keeper; drop role keeper")


@pytest.mark.parametrize(
    ("location", "table"),
    [
        ("table:kept", TableName("public", "kept")),
        ("table:a.b", TableName("a", "b")),
        ('table:A".b;c', TableName('A"', "b;c")),
    ],
)
def test_a_location_names_a_table(location: str, table: TableName) -> None:
    assert parse_table(location) == table


@pytest.mark.parametrize("location", ["table:", "table:.", "table:a.", "table:.a"])
def test_a_location_without_a_name_is_refused(location: str) -> None:
    with pytest.raises(pgqpy.InvalidArgument, match="names no table"):
        parse_table(location)
