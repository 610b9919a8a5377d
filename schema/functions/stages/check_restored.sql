-- Function: pgq.check_restored(q pgq.queue)
--
-- Refuses a queue that waits for repair_queue: its last tick knows of transactions that this cluster has still to begin.
-- What a stage is given by now would have an id that this tick takes for seen. That the caller's own id is smaller than
-- the last tick's xmax says nothing, for a transaction may be open for long; but then that tick does not see it.
--
-- Raises: PQ012.
-- Writes: nothing; takes an xid.
create or replace function pgq.check_restored(q pgq.queue)
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
declare
    v_last constant txid_snapshot := (
        select tick_snapshot from pgq.tick where tick_queue = q.queue_id order by tick_id desc limit 1);
begin
    if txid_snapshot_xmax(txid_current_snapshot()) < txid_snapshot_xmax(v_last) or txid_visible_in_snapshot(txid_current(), v_last) then
        raise exception 'queue % has events of later transactions than this cluster', q.queue_name using errcode = 'PQ012',
            hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
    end if;
end
$$;
comment on function pgq.check_restored(pgq.queue) is 'Refuses a queue restored where transaction ids are smaller.';
