-- Function: pgq.slowest_tick(i_queue_id int)
--
-- The last tick of the slowest consumer of a queue, or the queue's last tick when it has none. What this tick sees,
-- everybody has had.
--
-- Writes: nothing.
create or replace function pgq.slowest_tick(i_queue_id int)
returns bigint language sql volatile as $$
    select coalesce(
        (select min(sub_last_tick) from pgq.subscription where sub_queue = i_queue_id),
        (select max(tick_id) from pgq.tick where tick_queue = i_queue_id))
$$;
comment on function pgq.slowest_tick(int) is 'The last tick of the slowest consumer.';
