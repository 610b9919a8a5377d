-- A row as JSON, the same whatever the session's settings are. capture_row calls it, so it runs
-- with the rights of pgq_capture. It belongs to the engine's owner: no cast can alter its settings.
create or replace function pgq.capture_row_fixed(i_row record)
returns json language plpgsql set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres'
set bytea_output = 'hex' set extra_float_digits = 1 as $$
begin
    return row_to_json(i_row);
end $$;
comment on function pgq.capture_row_fixed is 'A row as JSON, under fixed settings.';
