-- Raises the error for a lane that came from a server where keys have other hashes.
-- Parameters: i_parent: the consumer.
-- Raises: PQ012, always.
create or replace function pgq.raise_other_hash(i_parent int)
returns void language plpgsql as $$
declare
    v record;
begin
    select q.queue_name, c.co_name, (
            select min(pos_last_tick) from pgq.current_position where sub_parent = i_parent) as tick
      into v
      from pgq.registration r
      join pgq.queue q on q.queue_id = r.sub_queue
      join pgq.consumer c on c.co_id = r.sub_consumer
     where r.sub_id = i_parent;
    raise exception 'the lanes of %/% came from a server where keys have other hashes',
        v.queue_name, v.co_name using errcode = 'PQ012',
        detail = 'keys would be in other lanes, and events lost',
        hint = format('select pgq.register_consumer_at(%L, %L, %s): events after this tick are '
            'delivered, some of them again', v.queue_name, v.co_name, v.tick);
end $$;
