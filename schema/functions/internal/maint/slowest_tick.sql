-- The position of a queue's slowest consumer, or the queue's last tick when it has none. Every
-- consumer has had the events that this tick sees, except those that are detached.
create or replace function pgq.slowest_tick(i_queue_id int)
returns bigint language plpgsql as $$
begin
    return coalesce(
        (select min(pos_last_tick) from pgq.current_position
          where sub_queue = i_queue_id and sub_detached is null),
        (select max(tick_id) from pgq.tick where tick_queue = i_queue_id));
end $$;
