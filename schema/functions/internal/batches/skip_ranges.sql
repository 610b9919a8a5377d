-- Finds the next range of a subscription with a filter: the first one after its position that has
-- an event for it. The others are skipped here: each as a batch would cost several round trips.
-- Retried events of the subscription count too. The caller holds the subscription meanwhile, so one
-- call skips at most a hundred ranges, or half a million events. Then it returns the last range
-- that it read, though that may be empty.
-- Parameters: p: the position, locked by the caller. i_next_tick: the end of the range after it.
--   The others: the limits of next_batch_custom, which hold for the events of the queue.
-- Returns: the two ticks of the range. next_tick is null if no range is left: then the caller moves
--   the position to last_tick, or rotation would stand still.
-- Raises: PQ012, 40001 as check_queue; 42501 as range_sql.
-- Writes: as check_queue.
create or replace function pgq.skip_ranges(
    p pgq.current_position, i_next_tick bigint, i_min_lag interval, i_min_count int,
    i_min_interval interval, out last_tick bigint, out next_tick bigint)
language plpgsql as $$
declare
    c_ranges constant int := 100;
    c_events constant int := 500000;
    q record;
    s pgq.tick;
    e pgq.tick;
    n record;
    v_first bigint;
    v_found boolean;
begin
    select queue_name, xmin::text as version into q from pgq.queue where queue_id = p.sub_queue;
    if current_setting('pgq.checked_' || p.sub_queue, true) is distinct from q.version then
        perform pgq.check_queue(p.sub_queue, q.queue_name, q.version);
    end if;
    last_tick := p.pos_last_tick;
    next_tick := i_next_tick;
    select * into s from pgq.tick
     where tick_queue = p.sub_queue and tick_id = last_tick limit 1;
    v_first := s.tick_event_seq;
    for i in 1..c_ranges loop
        select * into e from pgq.tick
         where tick_queue = p.sub_queue and tick_id = next_tick limit 1;
        execute format('select exists (%s)', pgq.range_sql(p.sub_queue, s.tick_snapshot,
            e.tick_snapshot, p.sub_id, null, p.sub_filter)) into v_found;
        exit when v_found or i = c_ranges
            or e.tick_event_seq - v_first > c_events;
        s := e;
        last_tick := next_tick;
        n := pgq.find_tick_helper(
            p.sub_queue, e.tick_id, e.tick_time, e.tick_event_seq, i_min_count, i_min_interval);
        next_tick := n.next_tick_id;
        if clock_timestamp() - n.next_tick_time < i_min_lag
                and clock_timestamp() - n.next_tick_time >= -i_min_lag then
            next_tick := null;
        end if;
        exit when next_tick is null;
    end loop;
end $$;
