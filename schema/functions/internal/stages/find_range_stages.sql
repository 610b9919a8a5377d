-- The stages that matter to a range of ticks, for range_sql: those whose transactions ended in the
-- range, and those that were released in it.
--
-- A tick sees a transaction only after its commit, and its row in pgq.stage was committed with it.
-- So no stage that the range needs is missing here.
-- Parameters: i_first, i_end, i_late: the transactions of the range, from i_first to before i_end,
--   and i_late. i_snapshot: that of the range's end tick. i_stages: as in tick_event_sql.
-- Returns: hidden: the transactions whose events are left out, '{}' if none; released: the
--   transactions of the stages whose events come instead, null if none; released_by: the
--   transaction that released each.
create or replace function pgq.find_range_stages(
    i_queue_id int, i_first bigint, i_end bigint, i_late bigint[], i_snapshot txid_snapshot,
    i_stages bigint[], out hidden bigint[], out released bigint[], out released_by bigint[])
language plpgsql as $$
begin
    hidden := array(
        select stage_txid from pgq.stage
         where stage_queue = i_queue_id
           and (stage_txid >= i_first and stage_txid < i_end or stage_txid = any (i_late)));
    select array_agg(stage_txid), array_agg(stage_released_by) into released, released_by
      from pgq.stage
     where stage_queue = i_queue_id
       and (stage_released_by >= i_first and stage_released_by < i_end
            or stage_released_by = any (i_late))
       and txid_visible_in_snapshot(stage_released_by, i_snapshot)
       and (i_stages is null or stage_id = any (i_stages));
end $$;
