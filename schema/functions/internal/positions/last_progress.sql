-- Tells a run that begins, or takes over what another one has left, when there was progress last. A
-- new run is no progress: doctor sees a consumer that starts again and again, and finishes nothing.
-- But if there was no sign of life for ten minutes, nobody was at work: the time counts from now.
-- Parameters: i_moved, i_active: pos_moved and pos_active.
-- Returns: i_moved; null: now.
-- Writes: nothing.
create or replace function pgq.last_progress(i_moved timestamptz, i_active timestamptz)
returns timestamptz language sql as $$
    select i_moved where clock_timestamp() - i_active < interval '10 minutes'
$$;
