-- Function: pgq.seq_getval(i_seq_name text)
--
-- The last value of a sequence, 0 before the first. PGQ returns last_value, which is 1 both before
-- and after the first nextval, so the first event of a queue did not count as new there
-- (pgq-contract 1.12).
--
-- Everybody may call it, with any name. So it runs with the caller's own rights; everybody may read
-- the queues' sequences.
--
-- Raises: 42P01, no such sequence; 42501, the caller may not read it (from PostgreSQL 18 on: 0).
-- Writes: nothing.
create or replace function pgq.seq_getval(i_seq_name text)
returns bigint language sql volatile strict
set search_path = pg_catalog, pg_temp as $$
    select coalesce(pg_sequence_last_value(pgq.quote_fqname(i_seq_name)::regclass), 0)
$$;
comment on function pgq.seq_getval(text) is 'The last value a sequence gave, 0 before the first.';
