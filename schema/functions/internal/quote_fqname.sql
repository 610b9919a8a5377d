-- Function: pgq.quote_fqname(i_name text)
--
-- Quotes a name at its first dot; without one the schema is public.
--
-- Returns: the quoted name.
-- Writes: nothing.
create or replace function pgq.quote_fqname(i_name text)
returns text language sql immutable strict
return case when strpos(i_name, '.') > 0
    then quote_ident(split_part(i_name, '.', 1)) || '.' || quote_ident(substr(i_name, strpos(i_name, '.') + 1))
    else 'public.' || quote_ident(i_name)
end;
comment on function pgq.quote_fqname(text) is 'Quotes a name at its first dot.';
