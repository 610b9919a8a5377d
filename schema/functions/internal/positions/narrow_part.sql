-- The careful mode of a position after one more crash: smaller parts, so that the event which
-- kills its handler is found with few writes. At one event the first open one is known to be it, so
-- only then the ends count against an event.
-- Parameters: x_part, x_tries: pos_part and pos_tries, see pgq.position.
-- Returns: both as they are from now on.
create or replace function pgq.narrow_part(
    x_part int, x_tries int, out part_size int, out tries int)
language sql immutable as $$
    select case when x_part is null then 1000 when x_part > 30 then 30 else 1 end,
           case when x_part = 1 then pgq.add_tries(x_tries, 1) end
$$;
