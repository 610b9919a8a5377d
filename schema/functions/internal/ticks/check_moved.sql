-- Refuses a queue that needs repair_queue, before events are compared with ticks: a batch or a
-- range would have events that were inserted since the restore, which repair_queue delivers, and a
-- rotation would remove them. Nor may stages be released, or events inserted under older ids.
--
-- A queue that moved soundly (pg_upgrade, a restore where xids are larger) passes, also before its
-- first tick here: see check_tick_order, which reads all events until a tick has passed.
--
-- A caller that reads events locks their tables first (lock_event_tables), and reads the ticks
-- after this call: a repair changes both.
-- Raises: PQ012 as check_tick_order, or as raise_no_tick. Takes no xid.
create or replace function pgq.check_moved(q pgq.queue)
returns void language plpgsql as $$
declare
    last pgq.tick;
begin
    if not pgq.is_unchecked(q) then
        return;
    end if;
    select * into last from pgq.tick
     where tick_queue = q.queue_id order by tick_id desc limit 1;
    if not found then
        perform pgq.raise_no_tick(q.queue_name);  -- a restore has not brought the ticks yet
    end if;
    perform pgq.check_tick_order(q, last, txid_current_snapshot());
end $$;
