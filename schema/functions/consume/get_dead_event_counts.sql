-- How many dead events a consumer has of each type and class of exception, the most frequent first,
-- and when the last of them died.
-- Parameters: those of get_dead_events. i_limit: at most this many rows.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.get_dead_event_counts(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null,
    i_type text default null, i_error text default null, i_since timestamptz default null,
    i_until timestamptz default null, i_limit int default null,
    i_after bigint default null, i_before bigint default null, out ev_type text,
    out dead_error text, out dead_events bigint, out last_dead_time timestamptz)
returns setof record language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    v_sub int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    return query
    select d.ev_type, d.dead_error, count(*), max(d.dead_time)
      from pgq.dead_event d
     where d.ev_owner = v_sub
       and (i_after is null or d.ev_id > i_after) and (i_before is null or d.ev_id < i_before)
       and pgq.dead_event_matches(d, i_event_ids, i_type, i_error, i_since, i_until)
     group by 1, 2 order by 3 desc, 1, 2 limit i_limit;
end $$;
comment on function pgq.get_dead_event_counts is 'Dead events by type and class of exception.';
