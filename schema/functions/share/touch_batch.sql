-- Sends a heartbeat for a batch whose events take long, and may extend its lease. It moves
-- nothing: finish_part by pos_no goes on. It waits for a transaction that finishes the batch.
-- Parameters: i_lease: the lease ends so long from now, or later if it did: a day at most; null:
--   as it is.
-- Returns: 1; 0: the batch is not open: finished, or taken away.
-- Raises: PQ009 as lease_end; 40001 as lock_batch.
-- Writes: as lock_batch; update pgq.position.
create or replace function pgq.touch_batch(x_batch_id bigint, i_lease interval default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, false);
    c_until constant timestamptz := pgq.lease_end(i_lease);
begin
    update pgq.position
       set pos_active = clock_timestamp(),
           pos_until = case when pos_active > clock_timestamp()  -- it was stepped back
                            then coalesce(c_until, pos_until)
                            else greatest(c_until, pos_until) end
     where pos_sub = p.pos_sub and pos_no = p.pos_no;
    return found::int;
end $$;
comment on function pgq.touch_batch is 'Sends a heartbeat for a batch: 1 done, 0 it was not open.';
