-- Moves dead events into the retry queue, due now, retries counted anew. Locks as event_retry_raw.
-- Parameters: i_event_ids: null: all of the consumer's.
-- Returns: how many.
-- Raises: PQ002 not a subscriber.
-- Writes: key share lock pgq.registration; delete pgq.dead_event; insert pgq.retry_queue.
create or replace function pgq.revive_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select from pgq.registration
     where sub_id = pgq.find_subscription(i_queue_name, i_consumer_name) for key share;
    with revived as (
        delete from pgq.dead_event
         where ev_owner = pgq.find_subscription(i_queue_name, i_consumer_name)
           and (i_event_ids is null or ev_id = any (i_event_ids))
        returning *
    ), queued as (
        insert into pgq.retry_queue
        select now(), ev_queue, ev_id, ev_time, txid_current(), ev_owner, null,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from revived
        on conflict (ev_owner, ev_id) do nothing
    )
    select count(*)::int from revived
$$;
comment on function pgq.revive_dead_events(text, text, bigint[]) is 'Puts dead events back.';
