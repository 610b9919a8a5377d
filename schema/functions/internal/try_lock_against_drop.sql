-- Function: pgq.try_lock_against_drop(i_queue_id int)
--
-- Whether a ticker may look at a queue's sequence now. drop_queue wants both the queue's row and its sequence; a ticker
-- looks at the sequence, which locks it until the end of its transaction, and then wants the row. So drop_queue asks
-- for this lock first, and from then on until its end no ticker looks: none deadlocks with it, and none has to wait for
-- a drop that waits for somebody else or is left open, with all the other queues.
--
-- Writes: shared advisory lock, if it is free.
create or replace function pgq.try_lock_against_drop(i_queue_id int)
returns boolean language sql volatile as $$
    select pg_try_advisory_xact_lock_shared(7366515, i_queue_id)
$$;
comment on function pgq.try_lock_against_drop(int) is 'Whether a ticker may look at a queue now: nobody drops it.';
