-- The time of the last progress, for a run that begins, or goes on with a range. A new run and a
-- takeover are no progress: so doctor sees a consumer that starts again and again, and finishes
-- nothing. But after ten minutes without a heartbeat, nobody was at work: the time is now.
-- Parameters: i_moved, i_active: pos_moved and pos_active.
-- Returns: i_moved, or now.
create or replace function pgq.last_progress(i_moved timestamptz, i_active timestamptz)
returns timestamptz language sql as $$
    select case when clock_timestamp() - i_active < interval '10 minutes' then i_moved
                else clock_timestamp() end
$$;
