-- The tick that ends the batch after a tick. Without limits it is the next tick. With limits it is
-- the queue's last tick, if that meets the minimum of events or of time, so that many ticks become
-- one batch. If the last tick exceeds a limit twofold, it is the first tick that meets a limit. If
-- it is older than the tick before the batch, the clock was set back: the interval has passed then.
--
-- Events are counted by their ids, which do not tell of transactions that were open at the tick
-- before. So when a tick came without new ids, the events themselves are counted, up to the
-- minimum: see range_txids.
-- Returns: one row, all null when no tick meets a limit.
create or replace function pgq.find_tick_helper(
    i_queue_id int, i_prev_tick_id bigint, i_prev_tick_time timestamptz, i_prev_tick_seq bigint,
    i_min_count bigint, i_min_interval interval,
    out next_tick_id bigint, out next_tick_time timestamptz, out next_tick_seq bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last pgq.tick;
    v_met boolean;
begin
    if i_min_count is null and i_min_interval is null then
        select tick_id, tick_time, tick_event_seq into next_tick_id, next_tick_time, next_tick_seq
          from pgq.tick where tick_queue = i_queue_id and tick_id > i_prev_tick_id
         order by tick_id limit 1;
        return;
    end if;
    select * into last from pgq.tick where tick_queue = i_queue_id and tick_id > i_prev_tick_id
     order by tick_id desc limit 1;
    v_met := last.tick_event_seq - i_prev_tick_seq >= i_min_count
        or last.tick_time - i_prev_tick_time >= i_min_interval
        or last.tick_time < i_prev_tick_time and i_min_interval is not null;
    if v_met is not true and i_min_count is not null and last.tick_event_seq = (
            select tick_event_seq from pgq.tick
             where tick_queue = i_queue_id and tick_id < last.tick_id
             order by tick_id desc limit 1) then
        v_met := i_min_count <= (
            select cardinality(pgq.range_txids(
                   i_queue_id, tick_snapshot, last.tick_snapshot, i_min_count))
              from pgq.tick where tick_queue = i_queue_id and tick_id = i_prev_tick_id limit 1);
    end if;
    if v_met is not true then
        return;
    end if;
    if last.tick_event_seq - i_prev_tick_seq > i_min_count * 2
            or last.tick_time - i_prev_tick_time > i_min_interval * 2 then
        select * into last
          from pgq.tick
         where tick_queue = i_queue_id and tick_id > i_prev_tick_id
           and (tick_event_seq - i_prev_tick_seq >= i_min_count
                or tick_time - i_prev_tick_time >= i_min_interval)
         order by tick_id limit 1;
    end if;
    next_tick_id := last.tick_id;
    next_tick_time := last.tick_time;
    next_tick_seq := last.tick_event_seq;
end $$;
comment on function pgq.find_tick_helper is 'The tick that ends the batch after a tick.';
