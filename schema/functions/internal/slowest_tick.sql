-- Function: pgq.slowest_tick(i_queue_id int)
--
-- The last tick of the slowest consumer of a queue, or the queue's last tick when it has none. What this tick sees,
-- everybody has had.
--
-- Returns: one row; tick_snapshot null when the tick is missing.
-- Writes: nothing.
create or replace function pgq.slowest_tick(i_queue_id int, out tick_id bigint, out tick_snapshot txid_snapshot)
language plpgsql as $$
begin
    tick_id := coalesce(
        (select min(sub_last_tick) from pgq.subscription where sub_queue = i_queue_id),
        (select max(t.tick_id) from pgq.tick t where t.tick_queue = i_queue_id));
    tick_snapshot := (select t.tick_snapshot from pgq.tick t where t.tick_queue = i_queue_id and t.tick_id = slowest_tick.tick_id);
end
$$;
comment on function pgq.slowest_tick(int) is 'The last tick of the slowest consumer.';
