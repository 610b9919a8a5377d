-- Function: pgq.check_tick_order(q pgq.queue, last pgq.tick, x_snapshot txid_snapshot)
--
-- Refuses a tick whose snapshot does not contain the last tick's. That happens when a dump was restored into a
-- cluster with smaller xids: new events would look long delivered, and be lost without a word (G7).
--
-- A copy whose xids have meanwhile grown past the last tick looks fine by its snapshots. So once after a move to
-- another cluster (the system identifier tells) the events are looked at: one with an id that the last tick had
-- not reached but with a txid that it takes for seen was written in between; and stages of transactions still to come
-- were opened elsewhere. A clean move (pg_upgrade, a restore where xids are larger) passes and goes on by itself.
--
-- Raises: PQ012.
-- Writes: update pgq.queue, once after a move.
create or replace function pgq.check_tick_order(q pgq.queue, last pgq.tick, x_snapshot txid_snapshot)
returns void language plpgsql as $$
declare
    v_system bigint := pgq.system_identifier();
    v_damaged boolean;
begin
    v_damaged := txid_snapshot_xmax(x_snapshot) < txid_snapshot_xmax(last.tick_snapshot)
              or txid_snapshot_xmin(x_snapshot) < txid_snapshot_xmin(last.tick_snapshot);
    if not v_damaged and v_system is distinct from q.queue_system_id then
        execute format('select exists (select from pgq.%I where ev_id > $1 and txid_visible_in_snapshot(ev_txid, $2))',
            'event_' || q.queue_id) into v_damaged using last.tick_event_seq, last.tick_snapshot;
        v_damaged := v_damaged or exists (
            select from pgq.stage where stage_queue = q.queue_id and stage_txid >= txid_snapshot_xmax(txid_current_snapshot()));
        if not v_damaged then
            update pgq.queue set queue_system_id = v_system where queue_id = q.queue_id;
        end if;
    end if;
    if v_damaged then
        raise exception 'Invalid PgQ state: old xmin=%, old xmax=%, cur txid=%',
                txid_snapshot_xmin(last.tick_snapshot), txid_snapshot_xmax(last.tick_snapshot), txid_current()
            using errcode = 'PQ012',
            detail = format('Queue %s comes from a cluster whose transaction ids were larger: a restored dump.', q.queue_name),
            hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
    end if;
end
$$;
comment on function pgq.check_tick_order(pgq.queue, pgq.tick, txid_snapshot) is 'Refuses a tick that sees less than the one before it.';
