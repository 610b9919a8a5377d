-- The key of a row, as ev_extra1 has it: the value of its column, as text; of several columns, a
-- JSON array of the values as texts.
-- Returns: the key; null if the row lacks a column, or has null there.
create or replace function pgq.row_key(i_row json, i_columns text[])
returns text language sql immutable
return (
    select case when cardinality(i_columns) = 1 then i_row ->> i_columns[1]
                when bool_and(i_row ->> name is not null)
                    then json_agg(i_row ->> name order by n)::text end
      from unnest(i_columns) with ordinality c (name, n));
comment on function pgq.row_key is 'The key of a captured table''s row.';
