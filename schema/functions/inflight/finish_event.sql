-- Ends an event of a shared consumer by its id, without a claim: it is done. If it is claimed, its
-- handler goes on, and its done, retry or dead ends nothing for it, as if its lease had ended. The
-- other events of the claim keep it.
-- Parameters: i_keep: the event is kept, for get_kept_events.
-- Returns: 1; 0: it is not in flight, or another session ends it just now.
-- Raises: PQ002; PQ012 as read_events; PQ013 not READ COMMITTED; PQ020 not shared; PQ024 detached.
-- Writes: insert pgq.kept_event; as find_run, take_from_flight.
create or replace function pgq.finish_event(
    i_queue_name text, i_consumer_name text, i_event_id bigint, i_keep boolean default false)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
    r pgq.inflight;
    v_nth int;
begin
    perform pgq.check_isolation('finish_event');
    r := pgq.find_run(s, i_event_id);
    if r.run_sub is null or (
            pgq.take_from_flight(s.sub_id, array[i_event_id], true)).taken = '{}' then
        return 0;
    elsif i_keep then
        v_nth := array_position(r.run_ids, i_event_id);
        insert into pgq.kept_event (ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select s.sub_queue, ev_id, ev_time, ev_txid, s.sub_id, ev_retry, ev_type, ev_data,
               ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from pgq.read_events(s.sub_queue, r.run_ids[v_nth:v_nth], r.run_places[v_nth:v_nth],
               array[r.run_table::int])
        on conflict (ev_owner, ev_id) do nothing;
    end if;
    return 1;
end $$;
comment on function pgq.finish_event is 'Ends an event of a shared consumer by its id.';
