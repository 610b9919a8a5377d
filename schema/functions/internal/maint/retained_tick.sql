-- The tick up to which a queue's events are older than its retention. A rotation treats it as the
-- position of one more consumer.
-- Returns: the first tick that can be read from, if none is as old; null without a retention.
-- Raises: 40001 as get_tick_at.
-- Writes: as get_tick_at.
create or replace function pgq.retained_tick(q pgq.queue)
returns bigint language plpgsql set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off as $$
begin
    if q.queue_retention is null then
        return null;
    end if;
    return coalesce(pgq.get_tick_at(q.queue_name, now() - q.queue_retention), (
        select min(tick_id) from pgq.tick
         where tick_queue = q.queue_id and tick_id >= q.queue_low_tick));
end $$;
