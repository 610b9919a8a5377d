-- Function: pgq.seq_setval(i_seq_name text, i_new_value bigint)
--
-- Moves a sequence forward, never back.
--
-- Returns: the resulting last value.
-- Writes: setval.
create or replace function pgq.seq_setval(i_seq_name text, i_new_value bigint)
returns bigint language plpgsql strict
security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_last bigint := pgq.seq_getval(i_seq_name);
begin
    if i_new_value > v_last then
        perform setval(pgq.quote_fqname(i_seq_name)::regclass, i_new_value);
        return i_new_value;
    end if;
    return v_last;
end
$$;
comment on function pgq.seq_setval(text, bigint) is 'Moves a sequence forward, never back.';
