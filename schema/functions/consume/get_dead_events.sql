-- The dead events of a consumer, the newest event (the highest id) first.
-- Parameters: a null filter takes every event. i_type, i_error: the event's type, the exception's
--   class; '': those that have none. i_since, i_until: died from the first on, before the second.
--   i_limit: at most this many. i_after, i_before: only ids higher than the first, lower than the
--   second: see get_dead_event_bounds.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.get_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null,
    i_type text default null, i_error text default null, i_since timestamptz default null,
    i_until timestamptz default null, i_limit int default null,
    i_after bigint default null, i_before bigint default null, out dead_time timestamptz,
    out dead_error text, out dead_reason text, out dead_traceback text, out dead_tries int,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text, out ev_extra3 text,
    out ev_extra4 text)
returns setof record language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    v_sub int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    return query
    select d.dead_time, d.dead_error, d.dead_reason, d.dead_traceback, d.dead_tries,
           d.ev_id, d.ev_time, d.ev_txid, d.ev_retry, d.ev_type, d.ev_data,
           d.ev_extra1, d.ev_extra2, d.ev_extra3, d.ev_extra4
      from pgq.dead_event d
     where d.ev_owner = v_sub
       and (i_after is null or d.ev_id > i_after) and (i_before is null or d.ev_id < i_before)
       and pgq.dead_event_matches(d, i_event_ids, i_type, i_error, i_since, i_until)
     order by d.ev_id desc limit i_limit;
end $$;
comment on function pgq.get_dead_events is 'The dead events of a consumer, the newest event first.';
