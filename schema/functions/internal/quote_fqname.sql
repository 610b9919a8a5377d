-- Function: pgq.quote_fqname(i_name text)
--
-- Quotes a name at its first dot; without one the schema is public.
--
-- Not strict as PGQ's, though it answers alike: PostgreSQL does not inline a strict function with a
-- CASE in it, and a call of an SQL function that is not inlined costs a transaction 10 us, and 50
-- after a COPY.
--
-- Returns: the quoted name; null of null.
-- Writes: nothing.
create or replace function pgq.quote_fqname(i_name text)
returns text language sql immutable
return case when strpos(i_name, '.') > 0
    then quote_ident(split_part(i_name, '.', 1)) || '.' || quote_ident(substr(i_name, strpos(i_name, '.') + 1))
    else 'public.' || quote_ident(i_name)
end;
comment on function pgq.quote_fqname(text) is 'Quotes a name at its first dot.';
