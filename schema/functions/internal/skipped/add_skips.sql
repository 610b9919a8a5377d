-- Writes rows into pgq.skipped_event for events that have none yet.
-- Parameters: i_sub: as skip_sub; no other session writes rows for it now.
-- Raises: 40001 in REPEATABLE READ, as mark_skips.
-- Writes: insert pgq.skipped_event.
create or replace function pgq.add_skips(i_sub int, i_events pgq.event_template[])
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off
set enable_sort = off set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    v_last constant bigint := (
        select skip_no from pgq.skipped_event
         where skip_sub = i_sub order by skip_no desc limit 1);
begin
    insert into pgq.skipped_event (skip_sub, skip_no, skip_txid, skip_id)
    select i_sub, coalesce(v_last, 0) + row_number() over (), new.txid, new.id
      from (select distinct ev_txid, ev_id from unnest(i_events)) new (txid, id)
     where not exists (
            select from pgq.skipped_event
             where skip_sub = i_sub and skip_txid = new.txid and skip_id = new.id)
    on conflict (skip_sub, skip_no) do nothing;
end $$;
