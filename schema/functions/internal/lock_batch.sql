-- Function: pgq.lock_batch(x_batch_id bigint)
--
-- Makes the caller the only owner of an open batch until its transaction ends: whoever else wants to finish it, to set
-- events of it aside or to unregister its consumer waits, and finds it closed.
--
-- The lock comes first and the look after it, so in READ COMMITTED the look is fresh. In REPEATABLE READ it is as old as
-- the snapshot, and a batch that somebody finished since looks open. There the next pos_no is tried: if it is taken, or
-- the log was trimmed meanwhile, move_position raises. The trial is taken back at once; that costs a dead row, in those
-- isolation levels only.
--
-- Parameters: x_moves: the caller moves the position itself, and needs no trial.
-- Returns: the position; all null when the batch is not open.
-- Raises: 40001 in REPEATABLE READ, somebody else moved the position, or as check_snapshot.
-- Writes: row lock pgq.registration; as check_snapshot.
create or replace function pgq.lock_batch(x_batch_id bigint, x_moves boolean)
returns pgq.position language plpgsql as $$
declare
    p pgq.position;
begin
    perform from pgq.registration
      where sub_id = (select pos_sub from pgq.position where pos_batch = x_batch_id)
        for no key update;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.check_snapshot();
    end if;
    select * into p from pgq.position c
     where c.pos_batch = x_batch_id
       and not exists (select from pgq.position n where n.pos_sub = c.pos_sub and n.pos_no = c.pos_no + 1);
    if found and not x_moves and current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, null, null);
        delete from pgq.position where pos_sub = p.pos_sub and pos_no = p.pos_no + 1;
    end if;
    return p;
end
$$;
comment on function pgq.lock_batch(bigint, boolean) is 'Makes the caller the only owner of an open batch.';
