-- A row as JSON. It belongs to pgq_capture, which may do nothing else: row_to_json runs casts that
-- users define for their types, with the rights of the function's owner.
--
-- Such a cast may alter or drop this function, as its role owns it; it cannot replace the body, nor
-- give the name to another function. So the body checks whose rights it has. It names the schema
-- of everything, as a cast may have changed the function's search_path. Values have one text only
-- under the settings of capture_row_fixed. To set them takes as long as all the rest, so it is
-- called only where they differ.
-- Raises: 42501 it is not pgq_capture's.
create or replace function pgq.capture_row(i_row record)
returns json language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if current_user operator(pg_catalog.<>) 'pgq_capture' then
        raise exception 'pgq.capture_row runs with the rights of %', current_user
            using errcode = '42501', hint = 'pgqpy schema install makes it pgq_capture''s again';
    end if;
    return case
        when pg_catalog.current_setting('timezone') operator(pg_catalog.=) any ('{UTC,Etc/UTC,GMT}')
            and pg_catalog.starts_with(pg_catalog.current_setting('datestyle'), 'ISO')
            and pg_catalog.current_setting('intervalstyle') operator(pg_catalog.=) 'postgres'
            and pg_catalog.current_setting('bytea_output') operator(pg_catalog.=) 'hex'
            and pg_catalog.current_setting('extra_float_digits')
                operator(pg_catalog.=) any ('{1,2,3}')
            then pg_catalog.row_to_json(i_row)
        else pgq.capture_row_fixed(i_row) end;
end $$;
comment on function pgq.capture_row is 'A row as JSON, with the rights of pgq_capture.';
