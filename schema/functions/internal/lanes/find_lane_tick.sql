-- The tick that ends the next batch of a lane: the next tick, and while the lane is behind, one
-- that is further. A lane takes only some events of each tick, so a batch for each would cost more
-- than its events. So many ticks are merged as have about i_wanted events for the lane, a hundred
-- at most.
-- Parameters: i_wanted: null: a thousand. The others: the limits of next_batch_custom; with a count
--   or an interval, the next tick is theirs.
-- Returns: null when there is none yet; never a tick beyond sub_stop_tick.
-- Raises: PQ015 as find_next_tick.
create or replace function pgq.find_lane_tick(
    s pgq.current_position, i_min_lag interval, i_min_count int,
    i_min_interval interval, i_wanted int)
returns bigint language plpgsql as $$
declare
    c_ticks constant int := 100;
    v_next bigint;
    v_first bigint;
    v_most bigint;
begin
    v_next := pgq.find_next_tick(s, i_min_lag, i_min_count, i_min_interval);
    if v_next is not null and i_min_count is null and i_min_interval is null then
        select tick_event_seq into v_first
          from pgq.tick where tick_queue = s.sub_queue and tick_id = s.pos_last_tick limit 1;
        v_most := least(coalesce(i_wanted, 1000), 100000)::bigint
            * (s.sub_filter -> 'lane' ->> 1)::int;
        select greatest(v_next, max(t.tick_id)) into v_next
          from (select tick_id, tick_time, tick_event_seq from pgq.tick
                 where tick_queue = s.sub_queue and tick_id > s.pos_last_tick
                 order by tick_id limit c_ticks) t
         where t.tick_event_seq - v_first <= v_most
           and (i_min_lag is null or abs(extract(epoch from clock_timestamp() - t.tick_time))
               >= extract(epoch from i_min_lag));
    end if;
    return case when v_next is not null then least(v_next, s.sub_stop_tick) end;
end $$;
