-- Function: pgq.subtract_ids(i_later bigint, i_earlier bigint)
--
-- How many ids lie between two. Damaged values may be too far apart for a bigint: then the largest,
-- or the smallest. Null if one of them is null (least and greatest pass over nulls).
--
-- Writes: nothing; a query that calls it takes it in.
create or replace function pgq.subtract_ids(i_later bigint, i_earlier bigint)
returns bigint language sql immutable as $$
    select case when i_later - i_earlier::numeric is not null
        then least(greatest(i_later::numeric - i_earlier, -9223372036854775808), 9223372036854775807)::bigint end
$$;
comment on function pgq.subtract_ids(bigint, bigint) is 'How many ids lie between two, whatever they are.';
