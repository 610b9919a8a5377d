-- Returns claimed events that no handler has begun: they are claimed again at once, and this claim
-- does not count as an attempt.
-- Parameters: i_token, i_ids: as in done.
-- Returns: how many, as done.
-- Raises: PQ002; PQ020 not shared; PQ024 detached.
-- Writes: as return_runs.
create or replace function pgq.release(
    i_queue_name text, i_consumer_name text, i_token bigint, i_ids bigint[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pgq.return_runs(pgq.find_shared(i_queue_name, i_consumer_name), i_token, i_ids, '0',
        true, false);
end $$;
comment on function pgq.release is 'Returns claimed events that nobody has begun.';
