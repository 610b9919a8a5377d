-- Raises the error for a queue whose sequence of ticks or of events is behind the last tick.
-- Parameters: i_of: what the sequence numbers. i_number: what the last tick has.
-- Raises: PQ012, always.
-- Writes: nothing.
create or replace function pgq.raise_sequence_behind(q pgq.queue, i_of text, i_number bigint)
returns void language plpgsql as $$
begin
    raise exception 'the sequence of % of queue % is behind the last tick', i_of, q.queue_name
        using errcode = 'PQ012', detail = format('the last tick has %s: a copy of the database '
            'without the values of its sequences', i_number),
        hint = format('select pgq.repair_queue(%L), or: pgqpy schema repair', q.queue_name);
end $$;
