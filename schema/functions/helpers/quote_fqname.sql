-- Quotes a name at its first dot. Without a dot the schema is public. PGQ's function is strict, and
-- this one is not, with the same results: PostgreSQL does not inline a strict function with a CASE
-- in it, and a call that is not inlined costs a transaction 10 us, and 50 after a COPY.
-- Returns: the quoted name; null for null.
create or replace function pgq.quote_fqname(i_name text)
returns text language sql immutable
return case when strpos(i_name, '.') > 0
    then quote_ident(split_part(i_name, '.', 1)) || '.'
      || quote_ident(substr(i_name, strpos(i_name, '.') + 1))
    else 'public.' || quote_ident(i_name)
end;
comment on function pgq.quote_fqname is 'Quotes a name at its first dot.';
