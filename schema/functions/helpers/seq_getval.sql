-- The last value of a sequence, 0 before the first. PGQ seq_getval returns last_value, which is 1
-- both before and after the first nextval: the first event of a queue did not count as new there.
-- Everybody may call it, with any name, so it runs with the caller's own rights.
-- Raises: 42P01, no such sequence; 42501, the caller may not read it (from PostgreSQL 18 on: 0).
create or replace function pgq.seq_getval(i_seq_name text)
returns bigint language sql volatile strict set search_path = pg_catalog, pg_temp as $$
    select coalesce(pg_sequence_last_value(pgq.quote_fqname(i_seq_name)::regclass), 0)
$$;
comment on function pgq.seq_getval is 'The last value a sequence gave, 0 before the first.';
