-- Function: pgq.tick_wanted(i_new bigint, i_lag interval, i_gap interval, i_max_count int, i_max_lag interval, i_idle_period interval)
--
-- PGQ's rule (pgq-contract 1.5). With new events: at ticker_max_count of them, or ticker_max_lag after the last tick.
-- Without: ever more rarely, the gap doubles up to ticker_idle_period, so that lag and rotation go on.
--
-- A last tick that lies in the future was made before the clock was stepped back. How old it is
-- nobody knows, and waiting until the clock is there again would stop the queue: it is time at
-- once.
--
-- Parameters: i_new: events since the last tick; i_lag: time since it; i_gap: time from the one before to it; each null
--   if there is no such tick. The others: the queue's settings.
-- Writes: nothing; a query that calls it takes it in.
create or replace function pgq.tick_wanted(
    i_new bigint, i_lag interval, i_gap interval, i_max_count int, i_max_lag interval, i_idle_period interval)
returns boolean language sql immutable as $$
    select case
        when i_lag < interval '0' then true
        when i_gap is null and coalesce(i_new, 0) = 0 then true  -- none or one tick so far
        when i_new <> 0 then i_new >= i_max_count or i_new < 0 or i_lag >= i_max_lag
        else i_lag >= i_max_lag / 2 and (i_lag >= 2 * i_gap or i_lag >= i_idle_period)
    end
$$;
comment on function pgq.tick_wanted(bigint, interval, interval, int, interval, interval) is 'PGQ''s rule when to tick.';
