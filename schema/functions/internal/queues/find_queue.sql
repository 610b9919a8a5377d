-- The row of a queue. A caller that locks the row selects it itself, so that the lock is seen where
-- it is taken, and calls raise_queue_not_found.
-- Raises: PQ001 No such queue.
create or replace function pgq.find_queue(i_queue_name text)
returns pgq.queue language plpgsql as $$
declare
    q pgq.queue;
begin
    select * into q from pgq.queue where queue_name = i_queue_name;
    if not found then
        perform pgq.raise_queue_not_found(i_queue_name);
    end if;
    return q;
end $$;
