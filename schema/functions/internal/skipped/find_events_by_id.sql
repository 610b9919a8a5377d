-- Finds events of a queue by their ids, with their retried copies, among those that a snapshot does
-- not see. No index has the ids, so it reads what came after the snapshot. There is no upper bound:
-- a transaction that runs long has an id beyond any later snapshot's.
-- Parameters: i_snapshot: null: all events.
-- Returns: rows of the event tables, without their data; not those of dropped stages.
create or replace function pgq.find_events_by_id(
    i_queue_id int, i_snapshot txid_snapshot, i_ids bigint[])
returns pgq.event_template[] language plpgsql as $$
declare
    v_events pgq.event_template[];
begin
    execute format($sql$
        select array_agg((ev_id, ev_time, ev_txid, ev_owner, ev_retry, ev_type, null, ev_extra1,
                   ev_extra2, ev_extra3, ev_extra4)::pgq.event_template)
          from (
                select * from pgq.%1$I where ev_txid >= $1 and ev_id = any ($3)
                union all
                select * from pgq.%1$I where ev_txid = any ($2) and ev_id = any ($3)) e
         where ev_owner is not null or not exists (
                select from pgq.stage
                 where stage_queue = $4 and stage_txid = ev_txid and stage_released_by = 0)$sql$,
        pgq.event_table(i_queue_id))
        into v_events using coalesce(txid_snapshot_xmax(i_snapshot), 0),
            array(select txid_snapshot_xip(i_snapshot)), i_ids, i_queue_id;
    return coalesce(v_events, '{}');
end $$;
