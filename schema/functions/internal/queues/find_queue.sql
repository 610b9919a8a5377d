-- The row of a queue. A caller that locks the row does so first, in a statement of its own: this
-- read is younger than the lock.
-- Raises: PQ001 No such queue; PQ026 it was renamed.
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
