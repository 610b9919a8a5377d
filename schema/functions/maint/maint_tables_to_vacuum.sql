-- The tables of the engine that need VACUUM; none where autovacuum is on.
create or replace function pgq.maint_tables_to_vacuum()
returns setof text language sql security definer set search_path = pg_catalog, pg_temp as $$
    select 'pgq.' || unnest(array['queue', 'consumer', 'registration', 'position', 'tick',
        'tick_recent', 'retry_queue', 'dead_event', 'kept_event', 'delayed_event', 'dedup_key',
        'skipped_event', 'ledger', 'stage', 'front', 'piece', 'inflight', 'last_run',
        'inflight_copy', 'claim_rate', 'holder'])
     where current_setting('autovacuum') <> 'on'
$$;
comment on function pgq.maint_tables_to_vacuum is 'Tables to vacuum if autovacuum is off.';
