-- Deletes the dead events of a consumer that match, oldest first, and returns them. It leaves out
-- those that another session is reviving or deleting: two sessions divide the events between them.
-- It locks the registration first, as every writer of a subscription's rows does, so that
-- drop_queue waits for it. Each call is planned for its filters, to use the index.
-- Parameters: the filters are those of dead_event_matches. i_limit: at most this many; null: all.
--   i_after: only events with a higher id; null: all.
-- Raises: PQ002 not a subscriber.
-- Writes: key share lock pgq.registration; row locks and delete pgq.dead_event.
create or replace function pgq.take_dead_events(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[], i_type text, i_error text,
    i_since timestamptz, i_until timestamptz, i_limit int, i_after bigint)
returns setof pgq.dead_event language plpgsql set plan_cache_mode = force_custom_plan as $$
declare
    v_sub int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_rows tid[];
begin
    perform from pgq.registration where sub_id = v_sub for key share;
    v_rows := array(
        select d.ctid from pgq.dead_event d
         where d.ev_owner = v_sub and (i_after is null or d.ev_id > i_after)
           and pgq.dead_event_matches(d, i_event_ids, i_type, i_error, i_since, i_until)
         order by d.ev_id limit i_limit for update skip locked);
    return query delete from pgq.dead_event where ctid = any (v_rows) returning *;
end $$;
