-- The sum of two counts of retries or attempts, at most the largest int. An event may come with any
-- ev_retry, and an overflow would stop its consumer for ever.
-- Parameters: null counts as 0.
-- It is inlined into the query that calls it.
create or replace function pgq.add_tries(i_tries int, i_more int)
returns int language sql immutable as $$
    select least(coalesce(i_tries, 0)::bigint + coalesce(i_more, 0), 2147483647)::int
$$;
