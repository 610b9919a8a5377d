-- Refuses an id of the caller's that is beyond the queue's sequence. A tick holds the value of the
-- sequence, and the engine goes by it: no event that the tick sees has a larger id. Otherwise
-- cancel_event would not find the event, a seek would drop its retries, and after a restore it
-- would look as if it were new. In a queue with an external ticker, ids come from elsewhere: there
-- the sequence moves up instead, so no event inserted here gets such an id again.
-- Raises: PQ009.
-- Writes: in a queue with an external ticker as seq_setval.
create or replace function pgq.check_id(q pgq.queue, i_id bigint)
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
