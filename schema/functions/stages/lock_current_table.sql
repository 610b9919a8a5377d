-- Function: pgq.lock_current_table(q pgq.queue)
--
-- Locks the table that a producer would insert into, as a producer does. commit_stage and drop_stage take it before
-- the stages' rows, so that drop_queue and repair_queue, which begin with the event tables, wait for all of it or for none.
--
-- Raises: 42P01 the queue was dropped meanwhile.
-- Writes: ROW EXCLUSIVE lock on an event table.
create or replace function pgq.lock_current_table(q pgq.queue)
returns void language plpgsql as $$
begin
    execute format('lock table pgq.%I in row exclusive mode', pgq.event_table(q.queue_id, q.queue_cur_table));
end
$$;
comment on function pgq.lock_current_table(pgq.queue) is 'Locks the table that a producer would insert into.';
