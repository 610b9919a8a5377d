-- Tries to take a shared lock that keeps drop_queue away until the transaction ends. A ticker takes
-- it before it reads a queue's sequence.
--
-- drop_queue locks both the queue's row and its sequence. A ticker reads the sequence, which locks
-- it until its transaction ends, and then wants the row. So drop_queue takes this lock first. From
-- then on until its end no ticker reads the sequence. So no ticker deadlocks with it, and no
-- ticker, with all the other queues, waits for a drop that waits itself.
--
-- Returns: false: the queue is being dropped.
-- Writes: shared advisory lock, if it is free.
create or replace function pgq.try_lock_against_drop(i_queue_id int)
returns boolean language sql volatile as $$
    select pg_try_advisory_xact_lock_shared(pgq.lock_number('queue'), i_queue_id)
$$;
