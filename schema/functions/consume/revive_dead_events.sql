-- Moves dead events into the retry queue, due now, retries counted anew; the oldest event first.
-- Parameters: those of get_dead_events. i_after: only events with a higher id. With i_limit, a call
--   is a short transaction: call it again after its highest id until it returns less. i_until then
--   leaves out events that died meanwhile.
-- Returns: their ids, in order, without those that another session is reviving or deleting.
-- Raises: PQ002 not a subscriber.
-- Writes: as take_dead_events; insert pgq.retry_queue.
create or replace function pgq.revive_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null,
    i_type text default null, i_error text default null, i_since timestamptz default null,
    i_until timestamptz default null, i_limit int default null, i_after bigint default null)
returns setof bigint language sql
security definer set search_path = pg_catalog, pg_temp as $$
    with revived as materialized (
        select *
          from pgq.take_dead_events(i_queue_name, i_consumer_name, i_event_ids, i_type, i_error,
               i_since, i_until, i_limit, i_after)
    ), queued as (
        insert into pgq.retry_queue
        select pgq.retry_time(ev_owner, now()), ev_queue, ev_id, ev_time, txid_current(), ev_owner,
               null, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from revived
        on conflict (ev_owner, ev_id) do nothing
    )
    select ev_id from revived order by 1
$$;
comment on function pgq.revive_dead_events is 'Puts dead events back, and returns their ids.';
