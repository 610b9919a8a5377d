-- The ticks that subscriptions refer to: their positions, the ends of their open batches, and their
-- pins. A function that removes ticks keeps these.
-- Returns: a tick may be listed more than once.
create or replace function pgq.used_ticks(out queue_id int, out tick_id bigint)
returns setof record language sql as $$
    select p.sub_queue, unnest(array[p.pos_last_tick, p.pos_next_tick] || p.pos_pins)
      from pgq.current_position p
$$;
