-- Deletes the rows of cancelled events that no consumer can be moved back to: those that the first
-- tick which is left sees.
-- Rows that another session has locked are left out: see maint_positions.
-- One call deletes up to 10,000 of each subscription.
-- Returns: 1 call again at once, 0 done.
-- Writes: delete pgq.skipped_event.
create or replace function pgq.maint_skipped_events()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_limit constant int := 10000;
    r record;
    v_deleted int;
    v_again int := 0;
begin
    for r in
        select s.sub, s.queue, t.tick_snapshot as low
          from (select sub_id, sub_queue from pgq.registration
                union all select -queue_id, queue_id from pgq.queue) s (sub, queue)
          join pgq.queue q on q.queue_id = s.queue
         cross join lateral (
                select tick_snapshot from pgq.tick
                 where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
                 order by tick_id limit 1) t
         where exists (select from pgq.skipped_event where skip_sub = s.sub)
    loop
        delete from pgq.skipped_event
         where ctid = any (array(
                select ctid from pgq.skipped_event
                 where skip_sub = r.sub and skip_txid < txid_snapshot_xmax(r.low)
                   and txid_visible_in_snapshot(skip_txid, r.low)
                   and not exists (
                        select from pgq.stage
                         where stage_queue = r.queue and stage_txid = skip_txid
                           and txid_visible_in_snapshot(stage_released_by, r.low) is not true)
                 limit c_limit for update skip locked));
        get diagnostics v_deleted = row_count;
        v_again := greatest(v_again, (v_deleted = c_limit)::int);
    end loop;
    return v_again;
end $$;
comment on function pgq.maint_skipped_events is 'Deletes old rows of cancelled events.';
