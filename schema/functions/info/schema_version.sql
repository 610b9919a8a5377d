-- The version of the installed tables. PGQ has no such function.
-- Raises: PQ014 the tables are there without their rows.
create or replace function pgq.schema_version()
returns int language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_version constant int := (select version from pgq.installation);
begin
    if v_version is null then
        raise exception using errcode = 'PQ014',
            message = 'the schema pgq has its tables without their rows, as a schema-only dump '
                'restores them',
            hint = 'run pgqpy schema uninstall, then pgqpy schema install; or restore a dump with '
                'data';
    end if;
    return v_version;
end $$;
comment on function pgq.schema_version is 'The number of the engine''s state.';
