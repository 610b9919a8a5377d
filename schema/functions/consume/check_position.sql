-- Checks that an open batch is at the position at which it was read. A transaction that writes for
-- the batch calls this first, where a pooler may hide a failover from its session: a standby that
-- lagged has the batch open too, but lacks what the session wrote before. There it would finish
-- events whose failures are lost.
--
-- Parameters: x_pos_no: the pos_no of the position (current_position), read before the events were.
--   Each finish_part adds one.
-- Raises: PQ003 no batch is open at this position; 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.check_position(x_batch_id bigint, x_pos_no bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set jit = off set max_parallel_workers_per_gather = 0 as $$
begin
    perform pgq.check_snapshot();
    if x_pos_no is distinct from (
            select pos_no from pgq.position
             where pos_batch = x_batch_id order by pos_no desc limit 1) then
        raise exception 'batch % is not at position % any more', x_batch_id, x_pos_no
            using errcode = 'PQ003', hint = 'read it again';
    end if;
end $$;
comment on function pgq.check_position(bigint, bigint)
    is 'Checks that an open batch is at the position at which it was read.';
