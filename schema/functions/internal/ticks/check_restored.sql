-- Refuses a queue that needs repair_queue: its last tick knows transactions that this cluster has
-- not begun yet. A transaction now may get an id that the last tick already counts as visible. The
-- stages that it releases, and the events that it inserts with an older id, would not be delivered.
-- An id below the last tick's xmax is no proof of that: the transaction may have been open long,
-- and then the tick does not see it.
-- Raises: PQ012, also as raise_no_tick.
-- Writes: nothing; takes an xid.
create or replace function pgq.check_restored(q pgq.queue)
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    v_last constant txid_snapshot := (
        select tick_snapshot from pgq.tick where tick_queue = q.queue_id
         order by tick_id desc limit 1);
begin
    if v_last is null then
        perform pgq.raise_no_tick(q.queue_name);  -- a restore has not brought the ticks yet
    elsif txid_snapshot_xmax(txid_current_snapshot()) < txid_snapshot_xmax(v_last)
            or txid_visible_in_snapshot(txid_current(), v_last) then
        raise exception 'queue % has events of later transactions than this cluster', q.queue_name
            using errcode = 'PQ012',
            hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
    end if;
end $$;
