-- Deletes dead events for good, the oldest event first.
-- Parameters, returns, raises: as revive_dead_events.
-- Writes: as take_dead_events.
create or replace function pgq.delete_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null,
    i_type text default null, i_error text default null, i_since timestamptz default null,
    i_until timestamptz default null, i_limit int default null, i_after bigint default null)
returns setof bigint language sql
security definer set search_path = pg_catalog, pg_temp as $$
    select ev_id
      from pgq.take_dead_events(i_queue_name, i_consumer_name, i_event_ids, i_type, i_error,
           i_since, i_until, i_limit, i_after)
     order by 1
$$;
comment on function pgq.delete_dead_events is 'Deletes dead events; returns their ids.';
