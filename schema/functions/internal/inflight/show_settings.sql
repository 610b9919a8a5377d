-- Settings of a shared consumer, as a text for errors. Those are left out that are as in another.
-- The names and values are those of pgqpy consumer set.
-- Parameters: arrays with the values of the key, per_key, limit_in_flight and rate.
create or replace function pgq.show_settings(i_values text[], i_others text[])
returns text language sql immutable as $$
    select string_agg(format('%s = %s', name, coalesce(
               value || case name when 'rate' then '/s' else '' end, 'none')), ', ' order by n)
      from unnest(array['key', 'per_key', 'limit_in_flight', 'rate'], i_values, i_others)
           with ordinality s (name, value, other, n)
     where value is distinct from other
$$;
