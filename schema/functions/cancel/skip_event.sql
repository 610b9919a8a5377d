-- Skips events for one consumer: as cancel_event, but the others get them.
-- Parameters, returns: as cancel_event.
-- Raises: PQ002 not a subscriber; PQ020 it is a worker, or a lane; as cancel_event.
-- Writes: as hide_events.
create or replace function pgq.skip_event(
    i_queue_name text, i_consumer_name text, i_event_ids bigint[], out ev_id bigint,
    out consumer_name text, out state text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, sub_mode)
       from pgq.registration where sub_id = v_sub and sub_parent is not null;
    return query select * from pgq.hide_events(i_queue_name, v_sub, i_event_ids);
end $$;
comment on function pgq.skip_event is 'Hides events from one consumer that has not had them.';
