-- Function: pgq.check_extra_maint(x_functions text)
--
-- Refuses an extra_maint array that names a function which maintenance may not call: see
-- is_extra_maint. maint_operations checks again each time, because a function may be replaced or
-- get another owner.
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
        if pgq.is_extra_maint(v_name) is not true then
            raise exception 'no function %(text) that maintenance may call', v_name using errcode = 'PQ009',
                hint = format('extra_maint is an array like {my_schema.my_function}; each takes the queue''s name, belongs with its'
                    ' schema to %s or a superuser, and not to an extension', current_user);
        end if;
    end loop;
exception when invalid_text_representation then
    raise exception 'invalid value "%" for parameter "extra_maint"', x_functions using errcode = 'PQ009',
        hint = 'an array like {my_schema.my_function}';
end
$$;
comment on function pgq.check_extra_maint(text) is 'Refuses extra_maint functions that do not exist.';
