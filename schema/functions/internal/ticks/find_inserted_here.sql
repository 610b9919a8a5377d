-- Finds the events of a copy that were inserted into it with ids of older events. repair_queue
-- calls it where a sequence was behind. Producers cannot choose ev_txid, and nobody chooses xmin.
-- So an event was inserted here if its transaction began here after the copy was made, and wrote
-- its row:
--
-- - ev_txid is the row's transaction, or a smaller one: the row was written in a savepoint. If
--   ev_txid is larger, the event came with the copy. So it did if one transaction wrote rows with
--   several txids.
-- - ev_txid is larger than the transaction that wrote the last tick's row, which came with the
--   copy. Rows that came later are beyond the last tick, or were in progress then: no tick sees
--   them.
--   A compaction writes the tick's row again. So without a savepoint, an ev_txid larger than the
--   first transaction that wrote copied rows is enough.
--
-- Where this tells nothing, ev_time decides: an event from between the last tick and now counts
-- as inserted here. Of two events with one id, the later row does.
--
-- Returns: with is_new, the events that were inserted here; those in_doubt may have come with the
--   copy, and then they come twice. Without is_new, events that may have been inserted here.
-- Writes: nothing; takes an xid.
create or replace function pgq.find_inserted_here(q pgq.queue, last pgq.tick)
returns table (in_table oid, in_row tid, is_new boolean, in_doubt boolean) language plpgsql as $$
declare
    v_now constant bigint := txid_current();
    v_copied constant bigint := (
        select pgq.row_txid(t.xmin, v_now)
          from pgq.tick t where t.tick_queue = q.queue_id and t.tick_id = last.tick_id);
begin
    return query execute format($sql$
        with events as materialized (
            select tableoid, ctid, ev_id, ev_time, ev_txid, pgq.row_txid(xmin, $1) as row_txid
              from pgq.%I where ev_owner is null),
        came as (
            select least($2, min(row_txid)) as since from events where ev_txid > row_txid),
        own as (
            select *, ev_txid <= row_txid
                   and min(ev_txid) over by_writer = max(ev_txid) over by_writer as is_own
              from events window by_writer as (partition by row_txid)),
        judged as (
            select *, is_own and (ev_txid > $2 or ev_txid = row_txid and ev_txid > since)
                   as is_sure, is_own and ev_time > $3 and ev_time <= clock_timestamp() as is_late
              from own, came),
        placed as (
            select *, ev_id <= $4 as is_old,
                   row_number() over (partition by ev_id order by is_sure, is_late, row_txid) > 1
                   as is_second
              from judged)
        select tableoid, ctid, is_second or is_sure or is_late, is_old and not is_sure
          from placed
         where is_second
            or is_old and (is_sure or is_late
                or ev_txid = row_txid and is_own and txid_visible_in_snapshot(ev_txid, $5))$sql$,
        pgq.event_table(q.queue_id))
        using v_now, v_copied, last.tick_time, last.tick_event_seq, last.tick_snapshot;
end $$;
