-- The condition of a filter on events, for range_sql. The sessions that run it have search_paths of
-- their own, so operators and functions are qualified. The values are quoted literals, which mean
-- the same with and without standard_conforming_strings.
-- Parameters: i_filter: as check_filter returns it.
-- Returns: SQL text; null for a null filter.
create or replace function pgq.filter_sql(i_filter jsonb)
returns text language sql immutable as $$
    select string_agg(format('(%s)', concat_ws(' or ', equal, prefixes)), ' and ' order by col)
      from jsonb_each(i_filter) condition (name, list)
     cross join lateral (
            select case name when 'types' then 'ev_type' else 'ev_' || name end) named (col)
     cross join lateral (
            select case when not bool_and(is_prefix)
                       then format('%I operator(pg_catalog.=) any (%L::pg_catalog.text[])', col,
                           array_agg(value) filter (where not is_prefix)) end as equal,
                   string_agg(format('pg_catalog.starts_with(%I, %L)', col, left(value, -1)),
                       ' or ') filter (where is_prefix) as prefixes
              from (
                    select value, name = 'types' and right(value, 1) = '*'
                      from jsonb_array_elements_text(list) value) wanted (value, is_prefix)) parts
$$;
