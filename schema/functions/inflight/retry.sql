-- Returns claimed events, to be claimed again after a delay; their attempts count.
-- Parameters: i_token, i_ids: as in done. i_delay: 0 to 100 years. i_keep_key: the later events of
--   the same key wait; else they go on, and the order of these is given up.
-- Returns: how many, as done.
-- Raises: PQ002; PQ009 a bad delay; PQ020 not shared; PQ024 detached.
-- Writes: as return_runs.
create or replace function pgq.retry(
    i_queue_name text, i_consumer_name text, i_token bigint, i_ids bigint[], i_delay interval,
    i_keep_key boolean default true)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if (i_delay between '0' and '100 years') is not true then
        raise exception 'a delay of %', coalesce(i_delay::text, 'null') using errcode = 'PQ009',
            hint = 'name an interval from 0 to 100 years';
    end if;
    return pgq.return_runs(pgq.find_shared(i_queue_name, i_consumer_name), i_token, i_ids,
        i_delay, coalesce(i_keep_key, true), true);
end $$;
comment on function pgq.retry is 'Returns claimed events, to be claimed again later.';
