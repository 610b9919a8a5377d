-- Makes an event of a shared consumer dead by its id, without a claim; otherwise as finish_event.
-- Parameters: i_reason: text, for get_dead_events.
-- Returns, raises: as finish_event.
-- Writes: insert pgq.dead_event; as find_run, take_from_flight.
create or replace function pgq.bury_event(
    i_queue_name text, i_consumer_name text, i_event_id bigint, i_reason text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
    r pgq.inflight;
    v_nth int;
begin
    perform pgq.check_isolation('bury_event');
    r := pgq.find_run(s, i_event_id);
    if r.run_sub is null or (
            pgq.take_from_flight(s.sub_id, array[i_event_id], true)).taken = '{}' then
        return 0;
    end if;
    v_nth := array_position(r.run_ids, i_event_id);
    insert into pgq.dead_event (dead_time, dead_reason, dead_tries, ev_queue, ev_id, ev_time,
           ev_txid, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,
           ev_extra4)
    select clock_timestamp(), coalesce(i_reason, ''), r.run_attempts, s.sub_queue, ev_id, ev_time,
           ev_txid, s.sub_id, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from pgq.read_events(s.sub_queue, r.run_ids[v_nth:v_nth], r.run_places[v_nth:v_nth],
           array[r.run_table::int])
    on conflict (ev_owner, ev_id) do nothing;
    return 1;
end $$;
comment on function pgq.bury_event is 'Makes an event of a shared consumer dead by its id.';
