-- The tick that ends the range after a position, within the limits of next_batch_custom. A lane
-- that ends has no tick after sub_stop_tick, and gets that one whatever the limits: no more events
-- come that would meet them.
-- Returns: null when there is none yet, or when another session has moved the position since a
--   caller without its lock saw it: maintenance may have deleted its tick then.
-- Raises: PQ015 PgQ corruption.
create or replace function pgq.find_next_tick(
    p pgq.current_position, i_min_lag interval, i_min_count int, i_min_interval interval)
returns bigint language plpgsql as $$
declare
    t pgq.tick;
    n record;
begin
    select * into t from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1;
    if not found then
        if not exists (
                select from pgq.current_position
                 where sub_id = p.sub_id and pos_no = p.pos_no) then
            return null;
        end if;
        raise exception 'PgQ corruption: subscription % does not see tick %', p.sub_id,
            p.pos_last_tick using errcode = 'PQ015',
            hint = 'move the consumer to a tick that is there: pgq.register_consumer_at';
    end if;
    n := pgq.find_tick_helper(
        p.sub_queue, t.tick_id, t.tick_time, t.tick_event_seq, i_min_count, i_min_interval);
    return case
        when p.pos_last_tick >= p.sub_stop_tick then null
        when clock_timestamp() - n.next_tick_time < i_min_lag
            and clock_timestamp() - n.next_tick_time >= -i_min_lag then null
        else least(n.next_tick_id, p.sub_stop_tick) end;
end $$;
