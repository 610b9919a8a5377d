-- The condition of a lane on events, for range_sql: the hash of the key. Events without a key are
-- spread by their id. Names are qualified as in filter_sql.
-- Parameters: i_lane: [number, lanes, key, key_hash], with the number counted from 0.
-- Returns: SQL text; null for null.
create or replace function pgq.lane_sql(i_lane jsonb)
returns text language sql immutable strict as $$
    select format('(coalesce(pg_catalog.hashtextextended(%I collate pg_catalog."C", 0), ev_id) '
        'operator(pg_catalog.&) 9223372036854775807) operator(pg_catalog.%%) %L '
        'operator(pg_catalog.=) %L', 'ev_' || (i_lane ->> 2), (i_lane ->> 1)::int,
        (i_lane ->> 0)::int)
$$;
