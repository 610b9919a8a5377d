-- Function: pgq.read_sequence(i_sequence text)
--
-- The last value of a sequence, 0 before the first; null where it cannot be read: it is gone, or
-- being dropped. For lists of all queues, which one broken queue must not break.
--
-- Raises: 55P03, 40P01 while the lock on the sequence cannot be had.
-- Writes: nothing.
create or replace function pgq.read_sequence(i_sequence text)
returns bigint language plpgsql as $$
begin
    return coalesce(pg_sequence_last_value(i_sequence::regclass), 0);
exception
    when lock_not_available or deadlock_detected then
        raise;
    when others then
        return null;
end
$$;
comment on function pgq.read_sequence(text) is 'The last value of a sequence, null where it cannot be read.';
