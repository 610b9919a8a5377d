-- Finishes events of a batch of take_parked, for finish_part. They are in the order of pos_ids, so
-- x_up_to finishes those up to its place there.
-- Parameters: p: the position, locked by the caller. x_up_to, x_done: as in finish_part.
-- Raises: PQ009 an id is not in the batch.
-- Writes: insert pgq.position; as remove_parked.
create or replace function pgq.finish_parked_part(
    p pgq.position, x_up_to bigint, x_done bigint[])
returns void language plpgsql as $$
begin
    if not coalesce(x_done, '{}') || coalesce(x_up_to, p.pos_ids[1]) <@ p.pos_ids then
        raise exception 'not all of these events are in batch %', p.pos_batch
            using errcode = 'PQ009', hint = 'name events of the batch';
    end if;
    perform pgq.remove_parked(coalesce(sub_parent, sub_id), p.pos_batch,
                coalesce(p.pos_ids[:array_position(p.pos_ids, x_up_to)], '{}') || x_done)
       from pgq.registration where sub_id = p.pos_sub;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        x_holder => p.pos_holder, x_part => p.pos_part,
        x_tries => case when x_up_to is null then p.pos_tries end,
        x_until => p.pos_until, x_ids => p.pos_ids);
end $$;
