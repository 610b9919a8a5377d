-- PGQ's function for the storage of event tables. It changes nothing: see create_event_table.
-- Returns: 1 done, 0 no such queue, null for null.
create or replace function pgq.tune_storage(i_queue_name text)
returns int language sql strict security definer set search_path = pg_catalog, pg_temp as $$
    select count(*)::int from pgq.queue where queue_name = i_queue_name
$$;
comment on function pgq.tune_storage is 'Nothing to do: event tables are made with their storage.';
