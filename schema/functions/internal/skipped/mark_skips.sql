-- Writes the next row of pgq.skipped_event without an event. Until the transaction ends, other
-- sessions that write a row for the same skip_sub wait. One whose snapshot does not show the newest
-- row gets an error, because that row has the number.
--
-- next_batch_custom calls it in REPEATABLE READ. A cancellation moves no position, so nothing else
-- would tell that the snapshot is older: the batch would have events now that it has not when it is
-- given again (G3). The open batches need no mark: what hides events from them was committed before
-- they were opened.
--
-- cancel_event and register_consumer_at call it for a queue: of a cancellation and a new consumer,
-- the second one sees the first. A session with an older snapshot has to find the number of the row
-- taken. So the row has the id of its transaction, and maint_skipped_events keeps it until a
-- rotation has passed that id. A snapshot from before that rotation gets an error anyway. For a
-- consumer its position tells that the snapshot is older, so the row, with skip_txid 0, may go.
--
-- The row is not deleted: a look for the newest row would walk over the dead ones (G6).
-- Parameters: i_sub: as skip_sub.
-- Raises: 40001 in REPEATABLE READ, another session wrote a row since; roll back and call again.
-- Writes: insert pgq.skipped_event.
create or replace function pgq.mark_skips(i_sub int)
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    c_none constant bigint := -9223372036854775808;  -- no event has this id
begin
    loop
        insert into pgq.skipped_event (skip_sub, skip_no, skip_txid, skip_id)
        select i_sub, 1 + coalesce((
                select skip_no from pgq.skipped_event
                 where skip_sub = i_sub order by skip_no desc limit 1), 0),
               case when i_sub < 0 then txid_current() else 0 end, c_none
        on conflict (skip_sub, skip_no) do nothing;
        exit when found;  -- else a session was faster, that this one has waited for
    end loop;
end $$;
