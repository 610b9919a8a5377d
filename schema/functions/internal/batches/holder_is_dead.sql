-- Whether the holder of a subconsumer's range is dead, so that another worker may take the range.
-- With a lease, its end decides. Without, a holder is dead after i_dead_interval without a sign of
-- life; one that named itself (pos_holder) also when no session holds the advisory lock of the
-- subconsumer. The lock is tried, and released at once: held until the end of the transaction, it
-- would keep out the worker itself, which comes back. Clients that make PGQ's own calls hold no
-- lock.
-- Writes: nothing; it is inlined into the query that calls it.
create or replace function pgq.holder_is_dead(
    i_sub_id int, i_holder text, i_until timestamptz, i_active timestamptz,
    i_dead_interval interval)
returns boolean language sql as $$
    select case
        when i_until is not null then i_until < clock_timestamp()
        when clock_timestamp() - i_active > i_dead_interval then true
        when i_holder is null then false
        when pg_try_advisory_lock(7366514, i_sub_id) then pg_advisory_unlock(7366514, i_sub_id)
        else false end
$$;
