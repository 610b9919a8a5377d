-- Gives up claimed events: they are kept with the reason, until revive_dead_events.
-- Parameters: i_token, i_ids: as in done. i_reason: text. i_error, i_traceback: the class and the
--   traceback of an exception.
-- Returns: how many, as done.
-- Raises: PQ002; PQ012 as find_claimed; PQ020 not shared; PQ024 detached.
-- Writes: as bury_events.
create or replace function pgq.dead(
    i_queue_name text, i_consumer_name text, i_token bigint, i_ids bigint[], i_reason text,
    i_error text default null, i_traceback text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pgq.bury_events(pgq.find_shared(i_queue_name, i_consumer_name), i_token, i_ids,
        i_reason, i_error, i_traceback);
end $$;
comment on function pgq.dead is 'Gives up claimed events, with a reason.';
