-- The stages that were released after one tick, up to another: see commit_stage. Parallel readers
-- divide them with tick_event_sql. Event ids interleave with other inserts, so readers that divided
-- the events by ids would each read all of them.
--
-- Call tick_event_sql in the same transaction: this function alone does not keep rotation away.
-- Returns: stage: its id. stage_txid: its transaction. stage_released_by: the transaction that
--   released its events; it is their ev_txid. events: an estimate of their number, an equal share
--   of commit_stage's i_events.
-- Raises: as find_range.
-- Writes: as check_snapshot.
create or replace function pgq.get_tick_stages(
    i_queue_name text, i_from_tick bigint, i_to_tick bigint, out stage bigint,
    out stage_txid bigint, out stage_released_by bigint, out events bigint)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
begin
    select * into r from pgq.find_range(i_queue_name, i_from_tick, i_to_tick);
    return query
    select s.stage_id, s.stage_txid, s.stage_released_by, coalesce(s.stage_events, 0)
      from pgq.find_range_stages(r.queue_id, txid_snapshot_xmax(r.from_snapshot),
           txid_snapshot_xmax(r.to_snapshot), array(select txid_snapshot_xip(r.from_snapshot)),
           r.to_snapshot, null) f
      join pgq.stage s on s.stage_queue = r.queue_id and s.stage_txid = any (f.released)
     order by 3, 2;
end $$;
comment on function pgq.get_tick_stages is 'The stages released in a range.';
