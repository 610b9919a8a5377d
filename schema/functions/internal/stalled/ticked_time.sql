-- The time since a tick in which the queue was ticked. A gap between two ticks counts for what a
-- running ticker may need, so a weekend without one counts for a minute or two, and so does a step
-- of the clock. A week of ticks, one a second, takes about a quarter of a second.
-- Parameters: i_tick: the position of a consumer; the time counts from the tick after it.
-- Returns: 0 if there is no tick after it.
create or replace function pgq.ticked_time(q pgq.queue, i_tick bigint)
returns interval language plpgsql as $$
declare
    c_gap constant interval
        := q.queue_ticker_idle_period + q.queue_ticker_max_lag + interval '1 minute';
begin
    return (
        select coalesce(sum(least(greatest(later - tick_time, '0'), c_gap)), '0')
          from (select tick_time,
                       lead(tick_time, 1, clock_timestamp()) over (order by tick_id) as later
                  from pgq.tick where tick_queue = q.queue_id and tick_id > i_tick) t);
end $$;
