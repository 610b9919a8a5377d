-- Whether the holder of a subconsumer's range is dead, so that another worker may take the range.
-- With a lease, its end decides. Without, a holder is dead after i_dead_interval without a
-- heartbeat, or if the last one lies that far in the future, because the clock was stepped back;
-- one that named itself (pos_holder) also when no session holds its advisory lock. The lock is
-- tried, and released at once: held until the end of the transaction, it would keep out the worker
-- itself, which comes back. Clients that make PGQ's own calls hold no lock.
-- Parameters: i_class, i_key: the advisory lock: of the subconsumer, by its sub_id; or of a run
--   with lanes, by hashtext(i_holder).
-- It is inlined into the query that calls it.
create or replace function pgq.holder_is_dead(
    i_key int, i_holder text, i_until timestamptz, i_active timestamptz,
    i_dead_interval interval, i_class int default pgq.lock_number('consumer'))
returns boolean language sql as $$
    select case
        when i_until is not null then pgq.lease_is_over(i_until, i_active)
        when clock_timestamp() - i_active > i_dead_interval then true
        when i_active - clock_timestamp() > i_dead_interval then true
        when i_holder is null then false
        when pg_try_advisory_lock(i_class, i_key) then pg_advisory_unlock(i_class, i_key)
        else false end
$$;
