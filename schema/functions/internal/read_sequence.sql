-- Function: pgq.read_sequence(i_sequence text)
--
-- The last value of a sequence, 0 before the first; null where it cannot be read: it is gone, or
-- another session has it locked, or waits to lock it, for longer than a moment. For lists of all
-- queues, which one queue must neither break nor hold up.
--
-- Raises: 40P01.
-- Writes: nothing.
create or replace function pgq.read_sequence(i_sequence text)
returns bigint language plpgsql set lock_timeout = '100ms' as $$
begin
    return coalesce(pg_sequence_last_value(i_sequence::regclass), 0);
exception
    when deadlock_detected then
        raise;
    when others then
        return null;
end
$$;
comment on function pgq.read_sequence(text) is 'The last value of a sequence, null where it cannot be read.';
