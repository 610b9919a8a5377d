-- The last value of a sequence, 0 before the first; null when it cannot be read: it is missing, or
-- another session holds its lock, or waits for it, for more than 100 ms. For lists of all queues,
-- which one queue must neither break nor delay.
-- Raises: 40P01.
create or replace function pgq.read_sequence(i_sequence text)
returns bigint language plpgsql set lock_timeout = '100ms' as $$
begin
    return coalesce(pg_sequence_last_value(i_sequence::regclass), 0);
exception
    when deadlock_detected then
        raise;
    when others then
        return null;
end $$;
