-- PGQ's rule. With new events: at ticker_max_count of them, or ticker_max_lag after the last tick.
-- Without new events: the gap between ticks doubles up to ticker_idle_period, so that positions and
-- rotation go on without events. If the last tick lies in the future, the clock was stepped back,
-- and waiting for it would stop the queue: it is due at once.
-- Parameters: i_new: events since the last tick. i_lag: time since the last tick. i_gap: time
--   between the last two ticks. Each is null without such a tick. The others: the queue's settings.
-- It is inlined into the query that calls it.
create or replace function pgq.tick_wanted(
    i_new bigint, i_lag interval, i_gap interval, i_max_count int, i_max_lag interval,
    i_idle_period interval)
returns boolean language sql immutable as $$
    select case
        when i_lag < interval '0' then true
        when i_gap is null and coalesce(i_new, 0) = 0 then true  -- none or one tick so far
        when i_new <> 0 then i_new >= i_max_count or i_new < 0 or i_lag >= i_max_lag
        else i_lag >= i_max_lag / 2 and (i_lag >= 2 * i_gap or i_lag >= i_idle_period)
    end
$$;
