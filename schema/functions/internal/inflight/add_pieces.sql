-- Notes where the events between two snapshots are, in pieces of 1,024 ids and one table, for a
-- range that is too large to be read at once. It is one pass over the index of each table, without
-- a sort: that takes five times as long. Whatever order the events were written in, a piece has all
-- of its ids, and pieces follow each other by id.
-- Raises: as range_sql.
-- Writes: insert pgq.piece.
create or replace function pgq.add_pieces(
    s pgq.registration, i_front bigint, i_start txid_snapshot, i_end txid_snapshot)
returns void language plpgsql set enable_sort = off
set enable_seqscan = off set enable_bitmapscan = off set jit = off
set max_parallel_workers_per_gather = 0 set work_mem = '32MB' as $$
begin
    for t in 0 .. (select queue_ntables - 1 from pgq.queue where queue_id = s.sub_queue) loop
        execute format('insert into pgq.piece select $1, $2, ev_id >> 10, $3, $4, $5, min(ctid), '
            'max(ctid) from (%s) e group by ev_id >> 10', pgq.range_sql(s.sub_queue, i_start, i_end,
                s.sub_id, null, s.sub_filter, ', ctid', t))
            using s.sub_id, i_front, t, i_start, i_end;
    end loop;
end $$;
