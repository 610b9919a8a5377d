-- The difference of two ids; null if one is null (least and greatest ignore nulls). Damaged values
-- may be too far apart for a bigint: then it is the largest or the smallest bigint.
-- Writes: nothing; it is inlined into the query that calls it.
create or replace function pgq.subtract_ids(i_later bigint, i_earlier bigint)
returns bigint language sql immutable as $$
    select case when i_later - i_earlier::numeric is not null
        then least(9223372036854775807,
                greatest(-9223372036854775808, i_later::numeric - i_earlier))::bigint end
$$;
