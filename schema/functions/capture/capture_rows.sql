-- The data and keys of the events of many rows. It belongs to pgq_capture: see capture_row.
-- Parameters: i_rows: an array of the table's type. i_key: the columns of the key.
-- Raises: 42501 it is not pgq_capture's; 42703 the table has no such column.
create or replace function pgq.capture_rows(
    i_rows anyarray, i_key text[], out datas text[], out keys text[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if current_user operator(pg_catalog.<>) 'pgq_capture' then
        raise exception 'pgq.capture_rows runs with the rights of %', current_user
            using errcode = '42501', hint = 'pgqpy schema install makes it pgq_capture''s again';
    end if;
    select f.datas, f.keys into datas, keys from pgq.capture_rows_fixed(i_rows, i_key) f;
end $$;
comment on function pgq.capture_rows is 'The data and keys of the events of many rows.';

do $owner$  -- only once: the new owner needs the right to create for it
declare
    f regprocedure;
begin
    foreach f in array array[
        'pgq.capture_row(record)', 'pgq.capture_rows(anyarray, text[])']
    loop
        if 'pgq_capture'::regrole <> (select proowner from pg_proc where oid = f) then
            grant create on schema pgq to pgq_capture;
            execute format('alter function %s owner to pgq_capture', f);
            revoke create on schema pgq from pgq_capture;
        end if;
    end loop;
end $owner$;
