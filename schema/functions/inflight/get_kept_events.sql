-- The events that finish_event kept for a consumer, the lowest id first.
-- Parameters: i_limit: so many at most; null: all. i_after: only higher ids; null: all.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.get_kept_events(
    i_queue_name text, i_consumer_name text, i_limit int default null,
    i_after bigint default null, out kept_at timestamptz, out ev_id bigint,
    out ev_time timestamptz, out ev_txid bigint, out ev_retry int, out ev_type text,
    out ev_data text, out ev_extra1 text, out ev_extra2 text, out ev_extra3 text,
    out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    return query
    select k.kept_at, k.ev_id, k.ev_time, k.ev_txid, k.ev_retry, k.ev_type, k.ev_data,
           k.ev_extra1, k.ev_extra2, k.ev_extra3, k.ev_extra4
      from pgq.kept_event k
     where k.ev_owner = v_sub and (i_after is null or k.ev_id > i_after)
     order by k.ev_id limit i_limit;
end $$;
comment on function pgq.get_kept_events is 'The events that finish_event kept for a consumer.';
