-- Function: pgq.finish_batch(x_batch_id bigint)
--
-- Closes a batch: the consumer's position moves to the batch's end. In the transaction of the processing itself this
-- makes each event's effect happen once (G9).
--
-- The registration's lock comes before the second look: whoever waited for it finds the batch closed (G5).
--
-- Returns: 1; or 0 with a WARNING when the batch is not open: finished before, or taken away.
-- Raises: 40001 in REPEATABLE READ, somebody else moved the position.
-- Writes: row lock pgq.registration; insert pgq.position.
create or replace function pgq.finish_batch(x_batch_id bigint)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position;
begin
    perform from pgq.registration
      where sub_id = (select pos_sub from pgq.position where pos_batch = x_batch_id)
        for no key update;
    select * into p from pgq.position c
     where c.pos_batch = x_batch_id
       and not exists (select from pgq.position n where n.pos_sub = c.pos_sub and n.pos_no = c.pos_no + 1);
    if not found then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_next_tick, null, null);
    return 1;
end
$$;
comment on function pgq.finish_batch(bigint) is 'Closes a batch: 1 done, 0 it was not open.';
