-- Writes a row as jsontriga or logutriga does.
-- Parameters: i_format: json, or anything else for logutriga's. i_values: of i_columns; for json,
--   each is JSON. i_hidden: columns to leave out.
create or replace function pgq.encode_row(
    i_format text, i_columns text[], i_values text[], i_hidden text[])
returns text language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if i_format = 'json' then
        return (
            select format('{%s}', string_agg(
                   format('%s:%s', to_json(name), coalesce(value, 'null')), ',' order by n))
              from unnest(i_columns, i_values) with ordinality c (name, value, n)
             where name <> all (i_hidden));
    end if;
    return (
        select coalesce(string_agg(
               pgq.url_encode(name) || coalesce('=' || pgq.url_encode(value), ''),
               '&' order by n), '')
          from unnest(i_columns, i_values) with ordinality c (name, value, n)
         where name <> all (i_hidden));
end $$;
comment on function pgq.encode_row is 'Writes a row as jsontriga or logutriga does.';
