"""The check of a table that is to hold an archive: it keeps the rows, and runs no foreign code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.rows import tuple_row

from pgqpy.cluster_names import read_any_name

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection
    from typing_extensions import LiteralString

# Which of the table and its partitions must not get the rows, and why. A crash empties unlogged
# tables, and a foreign table commits on its own: the position would be ahead of the rows. Triggers
# and rules run with the rights of the role that inserts: so the table must have none. Its owner can
# add one, and the owner of its schema can replace the table: client.schema_owner must trust both.
#
# The same goes for the owners of functions in checks, defaults, generated columns, indexes,
# partition keys and policies: a table that was given to another owner still calls them. pg_depend
# leads there, through operators and types too; it has no built-in objects. It does not lead from a
# type to the checks of a domain and to the casts that an INSERT uses. The owner of a domain can add
# a check at any time. A tableoid, unlike a regclass, is compared with an oid without a cast.
UNFIT: LiteralString = """
    with recursive trusted as (
        select r.oid
          from pg_roles r
          join pg_database d on d.datname = current_database()
         where r.oid = d.datdba or r.rolname in (current_user, 'pg_database_owner')
            or pg_has_role(r.oid, session_user, 'member')),
    tree as (
        select c.tableoid as class, c.oid, c.relkind, c.relpersistence, c.relowner, n.nspowner
          from pg_class t
          join pg_namespace n on n.oid = t.relnamespace
         cross join lateral (
                select t.oid union select relid from pg_partition_tree(t.oid)) part (oid)
          join pg_class c on c.oid = part.oid
         where n.nspname = %s and t.relname = %s),
    used (by, class, object) as (
        select oid, class, oid from tree
        union all
        select conrelid, tableoid, oid from pg_constraint
         where conrelid in (select oid from tree)
        union all
        select adrelid, tableoid, oid from pg_attrdef where adrelid in (select oid from tree)
        union all
        select indrelid, class, indexrelid from pg_index join tree on oid = indrelid
        union all
        select polrelid, tableoid, oid from pg_policy where polrelid in (select oid from tree)
        union
        select by, next.class, next.object
          from used
         cross join lateral (
                select refclassid, refobjid from pg_depend
                 where classid = used.class and objid = used.object
                union all
                select c.tableoid, c.oid
                  from pg_type t join pg_constraint c on c.contypid = t.oid
                 where t.tableoid = used.class and t.oid = used.object
                union all
                select c.tableoid, c.oid
                  from pg_type t join pg_cast c on c.casttarget = t.oid
                 where t.tableoid = used.class and t.oid = used.object) next (class, object)),
    code as (
        select by, class, object, owner
          from used
          join (select tableoid, oid, proowner from pg_proc
                union all
                select tableoid, oid, typowner from pg_type) owned (tableoid, oid, owner)
            on owned.tableoid = class and owned.oid = object
         where owner not in (select oid from trusted)),
    judged as (
        select oid, relowner, nspowner,
               case when not (relkind in ('r', 'p') and relpersistence = 'p') then 'kind'
                    when relowner not in (select oid from trusted) then 'owner'
                    when nspowner not in (select oid from trusted) then 'schema'
                    when exists (
                        select from pg_trigger where tgrelid = tree.oid and not tgisinternal)
                    then 'trigger'
                    when exists (select from pg_rewrite where ev_class = tree.oid) then 'rule'
                    when oid in (select by from code) then 'code' end as reason
          from tree)
    select judged.oid::regclass::text, reason, relowner::regrole::text, nspowner::regrole::text,
           pg_describe_object(class, object, 0), code.owner::regrole::text
      from judged
      left join code on by = judged.oid
     order by reason is null,
           array_position('{kind,owner,schema,trigger,rule,code}', reason), class, object
     limit 1"""
WHY = {
    "kind": "is not an ordinary logged table: it could lose rows that the consumer has passed",
    "owner": "belongs to role {owner}, whose triggers would run with your rights",
    "schema": "is in a schema of role {schema_owner}, who could put another table in its place",
    "trigger": "has triggers, which would run with your rights",
    "rule": "has rules, which would run with your rights",
    "code": "uses the {code} of role {code_owner}, whose code would run with your rights",
}


def find_unfit(connection: Connection[Any], schema: str, table: str) -> str | None:
    """Return why the table or a partition of it must not hold an archive, or None.

    The caller holds a lock on the table, so that no trigger, rule or partition is added.
    """
    with read_any_name(connection.cursor(row_factory=tuple_row)) as cursor:
        unfit = cursor.execute(UNFIT, (schema, table)).fetchone()
    if unfit is None:  # its schema was renamed, and may get its name back before the INSERT
        return f"{schema}.{table} was taken away at this moment"
    name, reason, owner, schema_owner, code, code_owner = unfit
    if reason is None:
        return None
    why = WHY[reason].format(
        owner=owner, schema_owner=schema_owner, code=code, code_owner=code_owner
    )
    return f"{name} {why}"
