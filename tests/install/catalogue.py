"""The catalogue's contents about the schema pgq, as text that can be compared."""

from __future__ import annotations

from typing import Any

import psycopg

# Neither oids nor the order of grants belong to what is compared.
_ACL = "(select array_agg(a::text order by a::text) from unnest({}) a)"
_SCHEMA_ACL = _ACL.format("coalesce(nspacl, acldefault('n', nspowner))")
_FUNCTION_ACL = _ACL.format("coalesce(proacl, acldefault('f', proowner))")
_KIND = "case relkind when 'S' then 's' else 'r' end"
_RELATION_ACL = _ACL.format(f'coalesce(relacl, acldefault(({_KIND})::"char", relowner))')

QUERIES = {
    "schema": f"""
        select nspname, {_SCHEMA_ACL}::text, obj_description(oid, 'pg_namespace')
        from pg_namespace where nspname in ('pgq', 'pgq_coop')""",
    "function": f"""
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid), {_FUNCTION_ACL}::text,
            pg_get_userbyid(proowner), obj_description(p.oid, 'pg_proc')
        from pg_proc p
        where pronamespace::regnamespace::text in ('pgq', 'pgq_coop') and prokind = 'f'""",
    "relation": f"""
        select relname, relkind, relpersistence, reloptions::text, {_RELATION_ACL}::text,
            pg_get_userbyid(relowner), relrowsecurity, obj_description(oid, 'pg_class'),
            case when relkind = 'v' then pg_get_viewdef(oid) end
        from pg_class where relnamespace = 'pgq'::regnamespace""",
    "column": f"""
        select c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
            a.attidentity, a.attstattarget, {_ACL.format("a.attacl")}::text, a.attisdropped,
            pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
            left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'pgq'::regnamespace and a.attnum > 0""",
    "constraint": """
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
        from pg_constraint where connamespace = 'pgq'::regnamespace""",
    "index": """
        select indrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid
        from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = 'pgq'::regnamespace""",
    "trigger": """
        select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'pgq'::regnamespace and not tgisinternal""",
    "type": """
        select typname, typtype, typcategory from pg_type
        where typnamespace = 'pgq'::regnamespace""",
    "sequence": "select * from pg_sequences where schemaname = 'pgq'",
    "default grant": """
        select defaclobjtype, defaclacl::text from pg_default_acl
        where defaclnamespace = 'pgq'::regnamespace""",
    "version": "select version from pgq.installation",
}


def catalogue(connection: psycopg.Connection[Any]) -> list[str]:
    """Return one line for each thing of the schema pgq, sorted."""
    lines = [
        f"{kind}: {row}"
        for kind, query in QUERIES.items()
        for row in connection.execute(query.encode()).fetchall()
    ]
    return sorted(lines)
