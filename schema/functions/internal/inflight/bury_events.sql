-- Makes events of a claim dead: they are kept with the reason, until revive_dead_events.
-- Returns: how many.
-- Raises: as find_claimed.
-- Writes: insert pgq.dead_event; as end_runs.
create or replace function pgq.bury_events(
    s pgq.registration, i_token bigint, i_ids bigint[], i_reason text, i_error text default null,
    i_traceback text default null)
returns int language plpgsql as $$
begin
    perform from pgq.inflight
      where run_sub = s.sub_id and run_token = i_token and (i_ids is null or run_ids && i_ids)
        for update;
    insert into pgq.dead_event (dead_time, dead_error, dead_reason, dead_traceback, dead_tries,
           ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry,
           ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    select clock_timestamp(), i_error, coalesce(i_reason, ''), i_traceback, attempts,
           s.sub_queue, ev_id, ev_time, ev_txid, s.sub_id, ev_retry, ev_type, ev_data, ev_extra1,
           ev_extra2, ev_extra3, ev_extra4
      from pgq.find_claimed(s, i_token, i_ids)
    on conflict (ev_owner, ev_id) do nothing;
    return pgq.end_runs(s.sub_id, i_token, i_ids);
end $$;
