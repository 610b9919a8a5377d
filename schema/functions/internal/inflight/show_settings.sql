-- Settings of a shared consumer, as a text for errors. Those are left out that are as in another.
-- Parameters: arrays with the values of order_key, per_key, limit_in_flight and rate.
create or replace function pgq.show_settings(i_values text[], i_others text[])
returns text language sql immutable as $$
    select string_agg(format('%s = %s', name, coalesce(value, 'null')), ', ' order by n)
      from unnest(array['order_key', 'per_key', 'limit_in_flight', 'rate'], i_values, i_others)
           with ordinality s (name, value, other, n)
     where value is distinct from other
$$;
