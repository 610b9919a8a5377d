"""Operations of maintenance that the server skips, or finds elsewhere, without an error."""

from __future__ import annotations

from psycopg.conninfo import make_conninfo

from pgqpy.client import connect_as_tool
from pgqpy.ticker.duties import maint, sqlstate


def test_a_table_that_the_server_does_not_vacuum_is_a_failure(dsn, client, connection, login):
    connection.execute(
        "create or replace function pgq.maint_tables_to_vacuum() returns setof text language sql"
        " security definer as $$ values ('pgq.position'), ('pgq.tick') $$"
    )
    with connect_as_tool(make_conninfo(dsn, user=login("pgq_ticker"))) as ticker:
        ((operation, error),) = maint(ticker).failures
    assert operation == ("vacuum", "pgq.position")
    assert '"position"' in str(error)
    assert "autovacuum = on" in str(error)
    assert maint(client).failures == []


def test_a_function_named_without_a_schema_is_that_of_public(dsn, client, connection, queue):
    connection.execute(
        "create function public.version(text) returns int language plpgsql as"
        " $$ begin raise exception 'called' using errcode = 'XX999'; end $$"
    )
    client.set_queue_config(queue, "extra_maint", "{version}")
    with connect_as_tool(dsn) as ticker:
        ((_, error),) = maint(ticker).failures
    assert sqlstate(error) == "XX999"
