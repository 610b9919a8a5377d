-- Whether a tick sees every event of a table. "The largest ev_txid is below the tick's xmin" would
-- do, but xmin stands still while any transaction of the cluster is open, and rotation with it. So
-- this function looks for events that the snapshot does not see: of transactions at or beyond its
-- xmax, or in progress at the tick. Both are index probes. Sequential scans are ruled out: without
-- statistics the planner would read the whole table, which a rotation holds locked meanwhile. The
-- tick sees the events of a stage if it sees the transaction that released them.
-- Parameters: i_table: the number of one of the queue's tables.
-- Returns: false also for a missing tick.
create or replace function pgq.tick_sees_table(i_queue_id int, i_tick_id bigint, i_table int)
returns boolean language plpgsql as $$
declare
    v_snapshot txid_snapshot := (
        select tick_snapshot from pgq.tick where tick_queue = i_queue_id and tick_id = i_tick_id);
    v_unseen boolean;
begin
    execute format('select exists (select from pgq.%1$I where ev_txid >= $1) '
            'or exists (select from pgq.%1$I where ev_txid = any ($2))',
            pgq.event_table(i_queue_id, i_table))
        into v_unseen using txid_snapshot_xmax(v_snapshot), array(
            select txid_snapshot_xip(v_snapshot)
            union all
            select stage_txid from pgq.stage
             where stage_queue = i_queue_id
               and (stage_released_by is null or stage_released_by
                    >= txid_snapshot_xmin(v_snapshot))
               and coalesce(not txid_visible_in_snapshot(stage_released_by, v_snapshot), true));
    return v_snapshot is not null and not v_unseen;
end $$;
