-- The parked keys of a consumer, the one that waits longest first: the head of each, and how many
-- events are parked with it.
-- Parameters: i_keys: only these keys; null: all. i_limit: at most this many; null: all. i_count:
--   count the events of a key up to this many.
-- Returns: park_since: when the head was parked. park_after: when it is due. park_error and
--   park_reason: of its last failure; null if it waited for others, and is next.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.get_parked(
    i_queue_name text, i_consumer_name text, i_keys text[] default null, i_limit int default null,
    i_count int default 10000, out park_key text, out events bigint, out park_since timestamptz,
    out park_after timestamptz, out park_error text, out park_reason text, out ev_id bigint,
    out ev_time timestamptz, out ev_txid bigint, out ev_retry int, out ev_type text,
    out ev_data text, out ev_extra1 text, out ev_extra2 text, out ev_extra3 text,
    out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    return query
    select h.park_key, c.events, h.park_since, h.park_after, h.park_error, h.park_reason,
           h.ev_id, h.ev_time, h.ev_txid, h.ev_retry, h.ev_type, h.ev_data,
           h.ev_extra1, h.ev_extra2, h.ev_extra3, h.ev_extra4
      from (
            select * from pgq.parked p
             where p.ev_owner = v_sub and p.park_after is not null
               and (i_keys is null or p.park_key = any (i_keys)) and not exists (
                    select from pgq.parked b
                     where b.ev_owner = v_sub and b.park_key = p.park_key
                       and b.park_no < p.park_no)
             order by p.park_since, p.park_key limit i_limit) h
     cross join lateral (
            select count(*) as events from (
                select from pgq.parked f
                 where f.ev_owner = v_sub and f.park_key = h.park_key limit i_count) bounded) c
     order by h.park_since, h.park_key;
end $$;
comment on function pgq.get_parked is 'A consumer''s parked keys, the oldest first.';
