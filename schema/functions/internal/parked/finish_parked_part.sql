-- Finishes events of a batch of take_parked, for finish_part: x_up_to and those in x_done, no
-- others. The batch is not in the order of its ids. A client that reads it in another order than
-- that of pos_ids would lose what stands before x_up_to there.
-- Parameters: p: the position, locked by the caller. x_up_to, x_done: as in finish_part.
-- Raises: PQ009 an id is not in the batch; 40001 as move_position.
-- Writes: insert pgq.position; as remove_parked.
create or replace function pgq.finish_parked_part(
    p pgq.position, x_up_to bigint, x_done bigint[])
returns void language plpgsql as $$
declare
    v_owner constant int := (
        select coalesce(sub_parent, sub_id) from pgq.registration where sub_id = p.pos_sub);
    v_ids bigint[];
begin
    if not coalesce(x_done, '{}') || coalesce(x_up_to, p.pos_ids[1]) <@ p.pos_ids then
        raise exception 'not all of these events are in batch %', p.pos_batch
            using errcode = 'PQ009', hint = 'name events of the batch';
    end if;
    -- Not those behind a failed event, which remove_parked could not tell from these ids.
    execute format('select array(select ev_id from (%s) e where ev_id = any ($1))',
        pgq.parked_event_sql(v_owner, p.pos_batch, p.pos_ids)) into v_ids using x_done || x_up_to;
    perform pgq.remove_parked(v_owner, p.pos_batch, v_ids);
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        x_holder => p.pos_holder, x_part => p.pos_part,
        x_tries => case when x_up_to is null then p.pos_tries end,
        x_died => case when x_up_to is null then p.pos_died end,
        x_until => p.pos_until, x_ids => p.pos_ids,
        x_moved => case when x_up_to is null and x_done = '{}' then p.pos_moved end);
end $$;
