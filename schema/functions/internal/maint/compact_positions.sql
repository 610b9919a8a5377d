-- Truncates the log of positions and inserts the newest row of each subscription again. That
-- removes dead rows too, whatever snapshots are open. Everything goes on, because only newest rows
-- are looked for, and they keep their pos_no and pos_batch.
-- Returns: true; false, and nothing was done, while an open transaction reads or writes positions.
-- Raises: PQ013 as lock_for_compaction.
-- Writes: as lock_for_compaction; truncate and insert pgq.position.
create or replace function pgq.compact_positions()
returns boolean language plpgsql set lock_timeout = '50ms' set enable_seqscan = off
set enable_bitmapscan = off set enable_sort = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
declare
    v_newest pgq.position[];
begin
    perform pgq.lock_for_compaction('pgq.position');
    v_newest := array(
        select (sub_id, pos_no, pos_last_tick, pos_next_tick, pos_batch, pos_active, pos_pins,
                pos_from, pos_moved, pos_attempts)::pgq.position
          from pgq.current_position);
    truncate pgq.position;
    insert into pgq.position select * from unnest(v_newest);
    return true;
exception when lock_not_available or undefined_table or deadlock_detected then
    return false;
end $$;
