-- Evaluates an expression over the columns of a row, such as col1 || col2, with the search_path of
-- the role that changes the table: the names in it mean what they mean to that role. Nothing else
-- here calls an operator or an unqualified function.
-- Parameters: i_path: that search_path.
-- Returns: the type, and the value as the output function of the type writes it.
-- Writes: within the call, the setting search_path.
create or replace function pgq.evaluate(
    i_expression text, i_path text, i_row record, out type regtype, out value text)
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    perform set_config('search_path', i_path, true);
    execute pg_catalog.format(
        'select pg_catalog.pg_typeof(v), '
            'case when v is null then null else pg_catalog.format(''%%s'', v) end '
        'from (select ($1).*) r cross join lateral (select %s) e (v)', i_expression)
        into type, value using i_row;
end $$;
comment on function pgq.evaluate is 'Evaluates an expression over the columns of a row.';
