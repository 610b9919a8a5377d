-- Whether the ticks of a queue may hold transaction ids of another cluster: no tick has compared
-- them with this cluster yet, or the last tick knows transactions that this cluster has not begun.
-- Until a tick passes, or repair_queue is called, an event that was inserted here may look as if
-- old ticks saw it. See check_moved.
-- Takes no xid.
create or replace function pgq.is_unchecked(q pgq.queue)
returns boolean language plpgsql as $$
begin
    return pgq.is_moved(q)
        or coalesce(txid_snapshot_xmax(txid_current_snapshot()) < (
            select txid_snapshot_xmax(tick_snapshot) from pgq.tick
             where tick_queue = q.queue_id order by tick_id desc limit 1), false);
end $$;
