-- Writes a change of a row as sqltriga does: what follows INSERT INTO t, UPDATE t SET, or DELETE
-- FROM t WHERE. An UPDATE that sets nothing sets the first key to itself.
-- Parameters: i_old, i_new: the values of i_columns. i_set: the columns to write.
create or replace function pgq.encode_change(
    i_op text, i_columns text[], i_old text[], i_new text[], i_keys text[], i_set text[])
returns text language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
    v_where text;
    v_first text;
begin
    if i_op = 'INSERT' then
        return (
            select format('(%s) values (%s)', string_agg(quote_ident(name), ',' order by n),
                   string_agg(coalesce(quote_literal(new), 'null'), ',' order by n))
              from unnest(i_columns, i_new) with ordinality c (name, new, n)
             where name = any (i_set));
    end if;
    select string_agg(key, ' and ' order by n), (array_agg(key order by n))[1]
      into v_where, v_first
      from unnest(i_columns, i_old) with ordinality c (name, old, n)
     cross join concat(quote_ident(name), coalesce('=' || quote_literal(old), ' is null')) key
     where name = any (i_keys);
    if i_op = 'DELETE' then
        return v_where;
    end if;
    return (
        select concat(coalesce(string_agg(
                   quote_ident(name) || '=' || quote_nullable(new), ',' order by n), v_first),
               ' where ', v_where)
          from unnest(i_columns, i_new) with ordinality c (name, new, n)
         where name = any (i_set));
end $$;
comment on function pgq.encode_change is 'Writes a change of a row as sqltriga does.';
