-- Refuses a snapshot that cannot follow the last tick's snapshot in one cluster. After a restore
-- into a cluster with smaller xids, new events would look as if they were delivered long ago, and
-- be lost or delivered twice without an error (G7).
--
-- In one cluster xmax never falls, and a transaction that had ended at the last tick has ended for
-- good. So no transaction in progress now is visible to the last tick, and xmin cannot have fallen
-- either.
--
-- In a copy whose xids have grown past the last tick, the snapshots look right. So once after a
-- move or a restore (see is_moved), this function reads the rows. The queue is damaged if one of
-- these holds:
-- - An event has an id beyond the last tick's and a txid that the last tick sees: it was inserted
--   in between.
-- - The transaction of an event or stage has not begun here, or is in progress: it is of another
--   cluster.
-- - An event has the txid of a stage that began a minute or more before it: the stage came with
--   the dump, and would hide the event.
-- - The last tick sees the caller's transaction, and so what this transaction inserts next.
-- - Ids of events stand twice, or will: see find_repeated_ids.
--
-- A clean move (pg_upgrade, a restore where xids are larger) passes.
-- Returns: whether the queue was moved or restored, soundly, and no tick has marked it yet.
-- Raises: PQ012.
-- Takes no xid.
create or replace function pgq.check_tick_order(
    q pgq.queue, last pgq.tick, x_snapshot txid_snapshot)
returns boolean language plpgsql as $$
declare
    v_own constant bigint := pg_current_xact_id_if_assigned()::text::bigint;
    v_moved constant boolean := pgq.is_moved(q);
    v_damaged boolean;
    ids record;
begin
    v_damaged := txid_snapshot_xmax(x_snapshot) < txid_snapshot_xmax(last.tick_snapshot);
    if not v_damaged
            and txid_snapshot_xmin(x_snapshot) < txid_snapshot_xmax(last.tick_snapshot) then
        v_damaged := exists (
            select from txid_snapshot_xip(x_snapshot) x
             where txid_visible_in_snapshot(x, last.tick_snapshot));
    end if;
    if not v_damaged and v_moved then
        execute format($sql$
            with now as materialized (
                select txid_current_snapshot() as snapshot, $4 as own),
            strange as (
                select 1 from pgq.%1$I, now
                 where ev_id > $1 and txid_visible_in_snapshot(ev_txid, $2)
                    or ev_txid is distinct from own
                       and not txid_visible_in_snapshot(ev_txid, snapshot)
                union all
                select 1 from pgq.%1$I join pgq.stage on stage_queue = $3 and stage_txid = ev_txid
                 where ev_id > $1 and ev_owner is null
                   and ev_time > stage_time + interval '1 minute'
                union all
                select 1 from pgq.stage, now
                 where stage_queue = $3 and stage_txid is distinct from own
                   and not txid_visible_in_snapshot(stage_txid, snapshot))
            select exists (select from strange)
                or coalesce(txid_visible_in_snapshot($4, $2), false)$sql$,
            pgq.event_table(q.queue_id))
            into v_damaged using last.tick_event_seq, last.tick_snapshot, q.queue_id, v_own;
    end if;
    if v_damaged then
        raise exception 'Invalid PgQ state: old xmin=%, old xmax=%, cur txid=%',
            txid_snapshot_xmin(last.tick_snapshot), txid_snapshot_xmax(last.tick_snapshot),
            coalesce(v_own, txid_snapshot_xmax(x_snapshot)) using errcode = 'PQ012',
            detail = format('Queue %s comes from a cluster whose transaction ids were larger: a '
                'restored dump.', q.queue_name),
            hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
    elsif v_moved then
        ids := pgq.find_repeated_ids(q);
        if ids.first_id is not null then
            perform pgq.raise_sequence_behind(q, 'events', ids.first_id, ids.last_id);
        end if;
    end if;
    return v_moved;
end $$;
