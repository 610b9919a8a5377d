-- The columns by which a captured table's changes are ordered: those of the primary key, or else of
-- the replica identity, or else of the smallest unique index. A deferrable key is none: the insert
-- of a key may then take a smaller id than the delete before it.
-- Returns: the columns, in the index's order; null: the table has no such key.
create or replace function pgq.capture_key(i_table regclass)
returns text[] language sql stable as $$
    select array(
            select attname::text from unnest(indkey[:indnkeyatts - 1]) with ordinality k (num, n)
              join pg_attribute on attrelid = indrelid and attnum = num order by n)
      from pg_index
     where indrelid = i_table and indisunique and indisvalid and indimmediate
       and indpred is null and indexprs is null and not exists (
            select from pg_attribute
             where attrelid = indrelid and attnum = any (indkey[:indnkeyatts - 1])
               and not attnotnull)
     order by indisprimary desc, indisreplident desc, indnkeyatts, indexrelid limit 1
$$;
