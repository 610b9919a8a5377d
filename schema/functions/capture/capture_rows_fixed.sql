-- The data and keys of the events of many rows. capture_rows calls it, so it runs with the rights
-- of pgq_capture. It belongs to the engine's owner: no cast can alter its settings.
--
-- Keys come from the columns, not from the JSON. A json column may hold \u0000: then no operator
-- reads the row's JSON.
create or replace function pgq.capture_rows_fixed(
    i_rows anyarray, i_key text[], out datas text[], out keys text[])
language plpgsql set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres'
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
    v_key text;
begin
    v_key := case when cardinality(i_key) = 1
        then format('to_json(r.%I) #>> ''{}''', i_key[1])
        else format('pgq.row_key(json_build_object(%s), $2)', (
            select string_agg(format('%L, r.%I', name, name), ', ') from unnest(i_key) name)) end;
    execute format(
        'select array_agg(row_to_json(r.*)::text), array_agg(%s) from unnest($1) r', v_key)
        into datas, keys using i_rows, i_key;
exception when undefined_column then
    raise exception 'the key (%) of the captured table % has changed',
        array_to_string(i_key, ', '), trim(trailing '[]' from pg_typeof(i_rows)::text)
        using errcode = '42703',
        hint = 'pgqpy capture list --check names its queue; pgqpy capture add takes the new key';
end $$;
comment on function pgq.capture_rows_fixed is 'Data and keys of many rows, under fixed settings.';
