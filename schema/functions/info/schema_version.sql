-- Function: pgq.schema_version()
--
-- The number of the engine's state: the last migration in tables/. PGQ has no such function.
--
-- Writes: nothing.
create or replace function pgq.schema_version()
returns int language sql stable
security definer set search_path = pg_catalog, pg_temp as $$
    select version from pgq.installation
$$;
comment on function pgq.schema_version() is 'The number of the engine''s state.';
