-- Hides the cancelled events of a queue from a new consumer: those that its tick does not see.
-- Parameters: i_marked: the caller has called mark_skips for the queue.
-- Raises: 40001 as mark_skips.
-- Writes: as mark_skips; insert pgq.skipped_event.
create or replace function pgq.copy_skips(
    i_sub int, i_queue_id int, i_tick bigint, i_marked boolean)
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_tick constant txid_snapshot := (
        select tick_snapshot from pgq.tick
         where tick_queue = i_queue_id and tick_id = i_tick limit 1);
begin
    if not i_marked then
        perform pgq.mark_skips(-i_queue_id);
    end if;
    insert into pgq.skipped_event (skip_sub, skip_no, skip_txid, skip_id)
    select i_sub, row_number() over (), skip_txid, skip_id
      from pgq.skipped_event
      left join pgq.stage on stage_queue = i_queue_id and stage_txid = skip_txid
     where skip_sub = -i_queue_id and skip_txid > 0
       and txid_visible_in_snapshot(case when stage_txid is null then skip_txid
           else stage_released_by end, v_tick) is not true;
end $$;
