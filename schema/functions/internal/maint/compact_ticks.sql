-- Truncates the table of the latest ticks, and moves into pgq.tick those that are worth keeping:
-- the ticks that a subscription (used_ticks) or a queue refers to, and the last tick of each
-- second. A consumer that comes there later gets batches of a second, without a gap. A queue with
-- an external ticker keeps all, because other databases may know its ticks by their ids.
--
-- A session that opens a batch, registers or pins has read the ticks in the same transaction. The
-- lock waits for it, and the query after the lock sees its position.
-- Returns: true; false, and nothing was done, while an open transaction reads or writes ticks.
-- Raises: PQ013 as lock_for_compaction.
-- Writes: as lock_for_compaction; truncate pgq.tick_recent; insert pgq.tick; key share lock
--   pgq.queue.
create or replace function pgq.compact_ticks()
returns boolean language plpgsql set lock_timeout = '50ms' as $$
begin
    perform pgq.lock_for_compaction('pgq.tick_recent');
    insert into pgq.tick
    select t.*
      from pgq.tick_recent t
      join pgq.queue q on q.queue_id = t.tick_queue
     where q.queue_external_ticker
        or t.tick_id in (q.queue_switch_tick, q.queue_low_tick)
        or (t.tick_queue, t.tick_id) in (
            select tick_queue, max(tick_id) from pgq.tick_recent
             group by tick_queue, date_trunc('second', tick_time))
        or (t.tick_queue, t.tick_id) in (
            select queue_id, tick_id from pgq.used_ticks());
    truncate pgq.tick_recent;
    return true;
exception when lock_not_available or undefined_table or deadlock_detected then
    return false;
end $$;
