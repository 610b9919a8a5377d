-- Raises the error for a queue whose sequence of ticks or of events is behind, or was, and events
-- have one id twice.
-- Parameters: i_of: what the sequence numbers. i_first, i_last: the numbers that it gives again, or
--   gave.
-- Raises: PQ012, always.
create or replace function pgq.raise_sequence_behind(
    q pgq.queue, i_of text, i_first bigint, i_last bigint)
returns void language plpgsql as $$
begin
    raise exception 'the sequence of % of queue % is or was behind: it gives or gave % to % again',
        i_of, q.queue_name, i_first, i_last using errcode = 'PQ012',
        detail = 'This is a copy of the database without the last values of its sequences.',
        hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
end $$;
