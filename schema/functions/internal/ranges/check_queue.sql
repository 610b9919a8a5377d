-- Checks, at a session's first read of a queue, whether the queue was moved or restored and needs a
-- repair. A queue that passes once passes until its row changes, so the session remembers the row's
-- version, and the caller compares it. The lock comes before the check: it waits for a repair,
-- which changes the ticks. So the caller reads the ticks after this call.
-- Parameters: i_version: the xmin of the queue's row.
-- Raises: PQ012 as check_moved; 40001 as lock_event_tables.
-- Writes: as lock_event_tables; the session's setting pgq.checked_<queue id>.
create or replace function pgq.check_queue(i_queue_id int, i_queue_name text, i_version text)
returns void language plpgsql as $$
begin
    perform pgq.lock_event_tables(i_queue_name);
    perform pgq.check_moved(pgq.find_queue(i_queue_name));
    perform set_config('pgq.checked_' || i_queue_id, i_version, false);
end $$;
