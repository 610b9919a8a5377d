-- The name of a table in types of events: schema.table, not quoted.
create or replace function pgq.table_name(i_table regclass)
returns text language sql stable as $$
    select nspname || '.' || relname
      from pg_class join pg_namespace n on n.oid = relnamespace where pg_class.oid = i_table
$$;
