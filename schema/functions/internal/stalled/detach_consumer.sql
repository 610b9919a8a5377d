-- Detaches a consumer with its workers and lanes. Its positions, batches and pins stay as they are.
-- Its retried events wait: see retry_time.
--
-- The caller's lock_timeout is short: a session that has one of the rows locked opens or finishes a
-- batch just now, and the next round of maintenance looks again.
-- Parameters: i_tick: where the caller saw it. If it has moved since, it stays attached.
-- Raises: 55P03 by the caller's lock_timeout.
-- Writes: row lock and update pgq.registration; update pgq.retry_queue.
create or replace function pgq.detach_consumer(i_sub int, i_tick bigint)
returns void language plpgsql as $$
begin
    perform from pgq.registration
      where sub_id = i_sub and sub_stalls = 'detach' and sub_detached is null for update;
    if not found then
        return;
    end if;
    perform from pgq.registration where sub_parent = i_sub order by sub_id for update;
    if i_tick is distinct from (
            select min(pos_last_tick) from pgq.current_position
             where i_sub in (sub_id, sub_parent)) then
        return;
    end if;
    update pgq.registration set sub_detached = clock_timestamp()
     where i_sub in (sub_id, sub_parent);
    update pgq.retry_queue set ev_retry_after = 'infinity' where ev_owner = i_sub;
end $$;
