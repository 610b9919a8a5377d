"""Calls for captured tables. `add_capture` needs pgq_writer and the table, a copy pgq_admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pgqpy.calls import _check as check
from pgqpy.calls._call import Call, Row, queue_call, records
from pgqpy.records import Capture, CopiedChunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.types.multirange import Multirange
    from typing_extensions import LiteralString

T = TypeVar("T")


def add_capture(queue: str, table: str, *, always: bool = False) -> Call[None]:
    """Make the changes of a table events of a queue, from now on.

    Args:
        queue: the queue.
        table: the table, as SQL names it: `public.orders`, `"Shop".orders`.
        always: capture what sessions write with `session_replication_role = replica`, too.

    It blocks the table's writers for a moment, and waits for those that have begun: set
    `lock_timeout` first. Raises QueueNotFound; InvalidArgument for a table that cannot be captured.
    """
    sql = "select pgq.add_capture(%s::text, %s::text::regclass, %s::boolean)"
    name = check.name("table", table)
    return queue_call("add_capture", sql, queue, name, always, decode=_nothing, table=table)


def remove_capture(table: str) -> Call[int]:
    """End the capture of a table: 1, or 0 if it was not captured."""
    sql = "select pgq.remove_capture(%s::text::regclass)"
    return _table_call("remove_capture", sql, table, decode=lambda rows: rows[0][0])


def get_captures(queue: str | None = None) -> Call[list[Capture]]:
    """Return the captured tables, of one queue or of all, and what is wrong with them."""
    sql = """
        select queue_name, table_name, table_id::text, key_columns, always, problems
          from pgq.get_captures(%s::text)"""
    params = (check.maybe_name("queue", queue),)
    return Call("get_captures", sql, params, records(Capture), {"queue": queue})


def get_definition(captured: Capture) -> Call[str]:
    """Return the SQL that creates a captured table elsewhere: columns, NOT NULL, the key.

    Columns that are generated become plain ones; VIRTUAL ones, which events lack, are left out.
    """
    sql = """
        select case when nspname <> 'public'
                   then format(E'create schema if not exists %%I;\n', nspname) else '' end
               || format(E'create table %%I.%%I (\n    %%s,\n    primary key (%%s)\n);',
                      nspname, relname,
                      (select string_agg(format('%%I %%s%%s', attname,
                                  format_type(atttypid, atttypmod),
                                  case when attnotnull then ' not null' end),
                              E',\n    ' order by attnum)
                         from pg_attribute
                        where attrelid = c.oid and attnum > 0 and not attisdropped
                          and attgenerated <> 'v'),
                      (select string_agg(quote_ident(name), ', ' order by n)
                         from unnest(%s::text[]) with ordinality k (name, n)))
          from pg_class c join pg_namespace n on n.oid = relnamespace
         where c.oid = %s::text::regclass"""
    params = (captured.key_columns, captured.table)
    return Call("get_definition", sql, params, lambda rows: rows[0][0])


def get_root(table: str) -> Call[str]:
    """Return the table that a partition belongs to, or the table itself, as SQL names it."""
    sql = """
        select coalesce(pg_partition_root(named), named)::text
          from (select %s::text::regclass as named) of_table"""
    return _table_call("pg_partition_root", sql, table, decode=lambda rows: rows[0][0])


def get_parts(table: str) -> Call[list[str]]:
    """Return the tables that hold a table's rows, as SQL names them: its partitions, or itself."""
    sql = """
        select coalesce(relid, named)::regclass::text
          from (select %s::text::regclass as named) of_table
          left join pg_partition_tree(named) on isleaf
         order by relid"""
    return _table_call("pg_partition_tree", sql, table, decode=lambda rows: [r[0] for r in rows])


def reserve_event_ids(queue: str, count: int) -> Call[Multirange[Any]]:
    """Reserve ids of events, at most 1,000,000: later events have larger ones."""
    sql = "select pgq.reserve_event_ids(%s::text, %s::integer)"
    return queue_call("reserve_event_ids", sql, queue, count)


def get_writers(table: str) -> Call[dict[str, int | None]]:
    """Return the transactions that may have written to a table and have not ended.

    Each has the id of its process, or None once it is prepared.
    """
    sql = """
        select virtualtransaction, pid from pg_locks
         where locktype = 'relation' and relation = %s::text::regclass and granted
           and database = (select oid from pg_database where datname = current_database())
           and mode in ('RowExclusiveLock', 'AccessExclusiveLock')"""
    return _table_call("pg_locks", sql, table, decode=dict)


def copy_chunk(
    captured: Capture, part: str, block: int, blocks: int, ids: Multirange[Any]
) -> Call[CopiedChunk]:
    """Copy the rows of some blocks of a captured table, or a partition, with reserved ids."""
    sql = """
        select rows, ids, blocks, filenode::bigint
          from pgq.copy_chunk(%s::text, %s::text::regclass, %s::text[], %s::bigint, %s::integer,
                              %s::int8multirange)"""
    more = (check.name("table", part), captured.key_columns, block, blocks, ids)
    queue = captured.queue_name
    return queue_call("copy_chunk", sql, queue, *more, decode=_chunk, table=part)


def _table_call(
    function: str, sql: LiteralString, table: str, *, decode: Callable[[list[Row]], T]
) -> Call[T]:
    params = (check.name("table", table),)
    return Call(function, sql, params, decode, {"table": table})


def _chunk(rows: list[Row]) -> CopiedChunk:
    return CopiedChunk(*rows[0])


def _nothing(_rows: list[Row]) -> None:
    return None
