-- The tick up to which a queue's events are older than its retention. A rotation treats it as the
-- position of one more consumer.
--
-- It is before the first tick that is younger, whatever times a clock that was stepped back gave
-- to later ticks. A tick in the future has no age, because the clock was ahead: it is never the
-- result, and later ticks decide whether its events are kept.
-- Returns: the first tick that can be read from, if none is as old; null without a retention.
create or replace function pgq.retained_tick(q pgq.queue)
returns bigint language plpgsql as $$
declare
    c_bound constant timestamptz := now() - q.queue_retention;
    v_younger bigint;
begin
    if q.queue_retention is null then
        return null;
    end if;
    select tick_id into v_younger
      from pgq.tick
     where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
       and tick_time > c_bound and tick_time <= clock_timestamp()
     order by tick_id limit 1;
    return coalesce((
        select tick_id from pgq.tick
         where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
           and tick_id < coalesce(v_younger, 9223372036854775807) and tick_time <= c_bound
         order by tick_id desc limit 1), (
        select min(tick_id) from pgq.tick
         where tick_queue = q.queue_id and tick_id >= q.queue_low_tick));
end $$;
