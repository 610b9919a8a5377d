-- Encodes a text as logutriga does: unreserved characters stay, a space is +, other octets are %xx.
-- In PL/pgSQL, as encode_row and encode_change: PostgreSQL plans a function in SQL for each row
-- again.
-- Returns: the encoded text; null for null.
create or replace function pgq.url_encode(i_text text)
returns text language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if i_text ~ '^[-_.a-zA-Z0-9]*$' then
        return i_text;
    end if;
    return (
        select string_agg(coalesce(
                   run[1], translate(run[2], ' ', '+'),
                   regexp_replace(encode(convert_to(run[3], 'UTF8'), 'hex'), '(..)', E'%\\1', 'g')),
               '' order by n)
          from regexp_matches(i_text, '([-_.a-zA-Z0-9]+)|( +)|([^-_.a-zA-Z0-9 ]+)', 'g')
          with ordinality found (run, n));
end $$;
comment on function pgq.url_encode is 'Encodes a text as logutriga does.';
