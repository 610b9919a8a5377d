-- The dead events of a consumer, ordered by id.
-- Raises: PQ002 not a subscriber.
-- Writes: nothing.
create or replace function pgq.get_dead_events(
    i_queue_name text, i_consumer_name text, out dead_time timestamptz, out dead_reason text,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text, out ev_extra3 text,
    out ev_extra4 text)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select dead_time, dead_reason, ev_id, ev_time, ev_txid, ev_retry,
           ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from pgq.dead_event where ev_owner = pgq.find_subscription(i_queue_name, i_consumer_name)
     order by ev_id
$$;
comment on function pgq.get_dead_events(text, text) is 'The dead events of a consumer.';
