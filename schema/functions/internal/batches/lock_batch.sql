-- Makes the caller the only holder of an open batch until its transaction ends. Other sessions that
-- want to finish the batch, put its events into the retry queue or unregister its consumer wait,
-- and then find it closed.
--
-- The lock comes first and the query after it, so in READ COMMITTED the query sees the newest
-- state. In REPEATABLE READ it sees the snapshot's state, in which a batch that another session
-- finished looks open. So the next position is written for trial: if its pos_no is taken, or the
-- log was trimmed meanwhile, move_position raises. Then the row is deleted, which costs a dead row.
--
-- No batch of a detached consumer is open: its events may be truncated, so a session that reads
-- them late finds none, and would finish them unseen.
-- Parameters: x_moves: the caller moves the position itself, which fails if it is not the newest.
-- Returns: the position; all null when the batch is not open.
-- Raises: 40001 in REPEATABLE READ, another session moved the position, or as check_snapshot.
-- Writes: row lock pgq.registration; in REPEATABLE READ as check_snapshot; insert and delete
--   pgq.position.
create or replace function pgq.lock_batch(x_batch_id bigint, x_moves boolean)
returns pgq.position language plpgsql as $$
declare
    p pgq.position;
    v_detached timestamptz;
begin
    select sub_detached into v_detached from pgq.registration
      where sub_id = (select pos_sub from pgq.position where pos_batch = x_batch_id limit 1)
        for no key update;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.check_snapshot();
    end if;
    if v_detached is not null then
        return null;
    end if;
    select * into p
      from (select * from pgq.position
             where pos_batch = x_batch_id order by pos_no desc limit 1) c
     where not exists (
            select from pgq.position n where n.pos_sub = c.pos_sub and n.pos_no = c.pos_no + 1);
    if found and not x_moves and current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, null, null);
        delete from pgq.position where pos_sub = p.pos_sub and pos_no = p.pos_no + 1;
    end if;
    return p;
end $$;
