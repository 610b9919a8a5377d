-- Function: pgq.compact_ticks()
--
-- Empties the table of the latest ticks, and moves into pgq.tick those that are worth keeping: what a subscription
-- (used_ticks) or a queue refers to, and of the rest the last one of each second. A consumer that walks there later gets
-- batches of a second instead of milliseconds; each still has what came between its two ticks. A queue's last tick is the
-- last of its second. A queue that is ticked from elsewhere keeps all: others may know its ticks by their ids.
--
-- Who opens a batch, registers or pins has read the ticks in the same transaction. The lock waits for it, and the look
-- after the lock sees its position.
--
-- Returns: whether it was done; not while somebody reads or writes ticks in an open transaction.
-- Raises: PQ013 as lock_for_compaction.
-- Writes: as lock_for_compaction; truncate pgq.tick_recent; insert pgq.tick; key share lock pgq.queue.
create or replace function pgq.compact_ticks()
returns boolean language plpgsql
set lock_timeout = '50ms' as $$
begin
    perform pgq.lock_for_compaction('pgq.tick_recent');
    insert into pgq.tick
    select t.*
      from pgq.tick_recent t
      join pgq.queue q on q.queue_id = t.tick_queue
     where q.queue_external_ticker
        or t.tick_id in (q.queue_switch_tick, q.queue_low_tick)
        or (t.tick_queue, t.tick_id) in (
            select tick_queue, max(tick_id) from pgq.tick_recent group by tick_queue, date_trunc('second', tick_time))
        or (t.tick_queue, t.tick_id) in (
            select queue_id, tick_id from pgq.used_ticks());
    truncate pgq.tick_recent;
    return true;
exception when lock_not_available or undefined_table or deadlock_detected then
    return false;
end
$$;
comment on function pgq.compact_ticks() is 'Moves ticks worth keeping into pgq.tick and truncates the table of the latest.';
