-- Keeps the ids that callers choose within the queue's sequence. A tick holds the value of the
-- sequence, and no event that the tick sees has a larger id. Otherwise cancel_event would not find
-- the event, a seek would drop its retries, and after a restore it would look as if it were new.
-- So a larger id is refused. In a queue with an external ticker, ids come from another database:
-- the sequence moves up to the id instead.
-- Raises: PQ009 the id is beyond the sequence, or as seq_setval.
-- Writes: as seq_setval, in a queue with an external ticker.
create or replace function pgq.cover_id(q pgq.queue, i_id bigint)
returns void language plpgsql as $$
begin
    if i_id <= pgq.seq_getval(q.queue_event_seq) then
        return;
    elsif q.queue_external_ticker then
        perform pgq.seq_setval(q.queue_event_seq, i_id);
    else
        raise exception 'event id % is beyond the sequence of queue %', i_id, q.queue_name
            using errcode = 'PQ009',
            hint = format(
                'move it up first: select pgq.seq_setval(%L, %L)', q.queue_event_seq, i_id);
    end if;
end $$;
