-- Hides the cancelled events of a queue from a new consumer, also those that its tick sees: it had
-- none of them, and may be moved back before them.
-- Parameters: i_marked: the caller has called mark_skips for the queue.
-- Raises: 40001 as mark_skips.
-- Writes: as mark_skips; insert pgq.skipped_event.
create or replace function pgq.copy_skips(i_sub int, i_queue_id int, i_marked boolean)
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
begin
    if not i_marked then
        perform pgq.mark_skips(-i_queue_id);
    end if;
    insert into pgq.skipped_event (skip_sub, skip_no, skip_txid, skip_id)
    select i_sub, row_number() over (), skip_txid, skip_id
      from pgq.skipped_event
     where skip_sub = -i_queue_id and skip_txid > 0  -- 0: after a repair
       and skip_id > '-9223372036854775808';  -- as mark_skips writes it
end $$;
