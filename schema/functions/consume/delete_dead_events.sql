-- Deletes dead events for good. It locks the registration first, as every writer of a
-- subscription's rows does, so that drop_queue waits for it.
-- Parameters: i_event_ids: null: all of the consumer's.
-- Returns: how many.
-- Raises: PQ002 not a subscriber.
-- Writes: key share lock pgq.registration; delete pgq.dead_event.
create or replace function pgq.delete_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[] default null)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select from pgq.registration
     where sub_id = pgq.find_subscription(i_queue_name, i_consumer_name) for key share;
    with deleted as (
        delete from pgq.dead_event
         where ev_owner = pgq.find_subscription(i_queue_name, i_consumer_name)
           and (i_event_ids is null or ev_id = any (i_event_ids))
        returning 1
    )
    select count(*)::int from deleted
$$;
comment on function pgq.delete_dead_events(text, text, bigint[]) is 'Deletes dead events for good.';
