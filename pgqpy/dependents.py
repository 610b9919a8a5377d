"""Objects that are not pgqpy's, and that dropping the schemas pgq and pgq_coop would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from pgqpy.manifest import names_in

if TYPE_CHECKING:
    from psycopg import Connection
    from typing_extensions import LiteralString


def foreign_objects(connection: Connection[Any]) -> str | None:
    """Return their descriptions, separated by commas; None if there is none.

    Call it in a transaction: it sets a setting for the rest of that.
    """
    connection.execute("set local quote_all_identifiers = off")  # for the names of the schemas
    ours = {
        "functions": names_in("functions"),
        "coop": names_in("functions/coop"),
        "relations": names_in("tables") + names_in("views"),
    }
    row = connection.cursor(row_factory=tuple_row).execute(_FOREIGN, ours).fetchone()
    return row[0] if row else None


# Outside of the schemas, what depends on their tables, types or functions. A rule, a default, a
# constraint or a trigger has no schema of its own: the first part of its address is its table's.
# Inside, what the owner has put there. A sequence of a serial column belongs to its table.
_FOREIGN: LiteralString = """
    with space as (select oid, nspname from pg_namespace where nspname in ('pgq', 'pgq_coop')),
    outside as (
        select d.classid, d.objid, d.objsubid from pg_depend d
        where d.deptype = 'n'
            and (d.refclassid, d.refobjid) in (
                select tableoid, oid from pg_class where relnamespace in (select oid from space)
                union all
                select tableoid, oid from pg_type where typnamespace in (select oid from space)
                union all
                select tableoid, oid from pg_proc where pronamespace in (select oid from space))
            and coalesce(
                (pg_identify_object(d.classid, d.objid, 0)).schema,
                (pg_identify_object_as_address(d.classid, d.objid, 0)).object_names[1])
                not in ('pgq', 'pgq_coop')),
    inside as (
        select d.classid, d.objid, 0 from pg_depend d
        join space on d.refclassid = 'pg_namespace'::regclass and d.refobjid = space.oid
        left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
        left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
        where d.deptype = 'n'
            and case nspname when 'pgq' then
                coalesce(p.proname <> all (%(functions)s) and p.proname !~ '^insert_group_[0-9]+$',
                    c.relname <> all (%(relations)s || '{batch_id_seq}'::text[])
                    and c.relname !~ '^event_[0-9]+(_[0-9]+|_id_seq|_tick_seq)?$'
                    and c.relname !~ '^truncation_[0-9]+$'
                    and not exists (select from pg_depend o where o.classid = d.classid
                        and o.objid = d.objid and o.deptype in ('a', 'i')), true)
                else coalesce(p.proname <> all (%(coop)s), true) end)
    select string_agg(distinct pg_describe_object(classid, objid, objsubid), ', ')
    from (table outside union all table inside) found (classid, objid, objsubid)
"""
