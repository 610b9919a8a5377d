-- Function: pgq.maint_tables_to_vacuum()
--
-- The tables of the engine that need VACUUM; none where autovacuum is on.
--
-- Writes: nothing.
create or replace function pgq.maint_tables_to_vacuum()
returns setof text language sql
security definer set search_path = pg_catalog, pg_temp as $$
    select unnest(array['pgq.queue', 'pgq.consumer', 'pgq.registration', 'pgq.position', 'pgq.tick', 'pgq.tick_recent',
        'pgq.retry_queue', 'pgq.dead_event', 'pgq.ledger', 'pgq.stage'])
     where current_setting('autovacuum') <> 'on'
$$;
comment on function pgq.maint_tables_to_vacuum() is 'The tables that need VACUUM, where autovacuum is off.';
