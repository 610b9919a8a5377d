-- Ends claimed events: their handling is over. In the handler's transaction, they are done exactly
-- if it commits.
-- Parameters: i_token: of the claim. i_ids: of its events; null: all of them.
-- Returns: how many. Fewer than were named, or 0: the lease ended, and others may have the events:
--   roll back.
-- Raises: PQ002; PQ020 not shared; PQ024 detached.
-- Writes: as end_runs.
create or replace function pgq.done(
    i_queue_name text, i_consumer_name text, i_token bigint, i_ids bigint[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pgq.end_runs((pgq.find_shared(i_queue_name, i_consumer_name)).sub_id, i_token, i_ids);
end $$;
comment on function pgq.done is 'Ends claimed events: they are done.';
