-- Raises the error for a lane that came from a server where keys have other hashes.
-- Parameters: s: the lane.
-- Raises: PQ012, always.
-- Writes: nothing.
create or replace function pgq.raise_other_hash(s pgq.current_position)
returns void language plpgsql as $$
declare
    v_queue text := (select queue_name from pgq.queue where queue_id = s.sub_queue);
    v_consumer text := (
        select co_name from pgq.registration join pgq.consumer on co_id = sub_consumer
         where sub_id = s.sub_parent);
begin
    raise exception 'the lanes of %/% came from a server where keys have other hashes',
        v_queue, v_consumer using errcode = 'PQ012',
        detail = 'keys would be in other lanes, and events lost',
        hint = format('select pgq.register_consumer_at(%L, %L, %s): events after this tick are '
            'delivered, some of them again', v_queue, v_consumer, (
            select min(pos_last_tick) from pgq.current_position
             where sub_parent = s.sub_parent));
end $$;
