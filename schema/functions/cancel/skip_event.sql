-- Skips events for one consumer: as cancel_event, but the others get them. An event of a shared
-- consumer is skipped even while it is claimed: its handler goes on, and its done, retry or dead
-- ends nothing for it, as if its lease had ended. The other events of the claim keep it.
-- Parameters, returns: as cancel_event.
-- Raises: PQ002 not a subscriber; PQ020 it is a subconsumer; as cancel_event.
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
