-- Function: pgq.check_extra_maint(x_functions text)
--
-- Refuses an extra_maint array that names a function which does not exist with one text parameter. The functions
-- run as whoever runs maintenance, never with the owner's rights.
--
-- Raises: PQ009.
-- Writes: nothing.
create or replace function pgq.check_extra_maint(x_functions text)
returns void language plpgsql as $$
declare
    v_name text;
begin
    if x_functions = '' then
        return;
    end if;
    foreach v_name in array x_functions::text[] loop
        if to_regprocedure(pgq.quote_fqname(v_name) || '(text)') is null then
            raise exception 'no function %(text)', v_name using errcode = 'PQ009',
                hint = 'extra_maint is an array like {my_schema.my_function}; each takes the queue''s name';
        end if;
    end loop;
exception when invalid_text_representation then
    raise exception 'invalid value "%" for parameter "extra_maint"', x_functions using errcode = 'PQ009',
        hint = 'an array like {my_schema.my_function}';
end
$$;
comment on function pgq.check_extra_maint(text) is 'Refuses extra_maint functions that do not exist.';
