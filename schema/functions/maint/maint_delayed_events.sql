-- Moves delayed events that are due, as an operation of maint_operations: for tickers that know
-- nothing of delayed events, such as PGQ's pgqd. pgqpy's ticker calls move_delayed_events.
-- Returns: 1 call again at once, 0 done.
-- Raises, writes: as move_delayed_events.
create or replace function pgq.maint_delayed_events()
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select (moved > 0)::int from pgq.move_delayed_events()
$$;
comment on function pgq.maint_delayed_events is 'Inserts due delayed events: 1 call again.';
