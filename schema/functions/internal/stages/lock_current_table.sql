-- Locks the table that a producer would insert into, in the mode of an INSERT. commit_stage and
-- drop_stage take this lock before they lock rows of pgq.stage, insert_event_once before it locks a
-- key. drop_queue and repair_queue begin with the event tables, so they wait for the whole call or
-- for nothing.
-- Raises: 42P01 the queue was dropped meanwhile.
-- Writes: ROW EXCLUSIVE lock on an event table.
create or replace function pgq.lock_current_table(q pgq.queue) returns void language plpgsql as $$
begin
    execute format('lock table pgq.%I in row exclusive mode',
        pgq.event_table(q.queue_id, q.queue_cur_table));
end $$;
