-- The end of a lease that begins now. Of a worker that died, nobody gets the events before the
-- lease ends: so a lease in a wrong unit, or without an end, would stop them for years.
-- Returns: null without a lease.
-- Raises: PQ009 more than a day.
create or replace function pgq.lease_end(i_lease interval)
returns timestamptz language plpgsql as $$
begin
    if i_lease > '1 day' then
        raise exception 'a lease of %', i_lease using errcode = 'PQ009',
            hint = 'a lease takes a day at most; touch_batch extends it';
    end if;
    return clock_timestamp() + i_lease;
end $$;
