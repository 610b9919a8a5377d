-- Makes the next call of pgq.ticker(queue) tick: it takes ticker_max_count ids from the event
-- sequence. It does not tick itself: call the ticker, or wait until the last tick changes. A queue
-- that is missing, paused or has an external ticker is left alone, without an error.
--
-- A setval instead would give ids twice, if a second caller or a producer took some after the read.
-- Only for a ticker_max_count beyond a million the sequence is set, by seq_setval.
-- Returns: the current last tick; null for a missing queue.
-- Writes: nextval of the event sequence; as seq_setval for a ticker_max_count beyond a million.
create or replace function pgq.force_tick(i_queue_name text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_most constant int := 1000000;  -- ids
    q pgq.queue;
begin
    select * into q from pgq.queue where queue_name = i_queue_name;
    if found and not q.queue_external_ticker and not q.queue_ticker_paused then
        perform nextval(q.queue_event_seq::regclass)
           from generate_series(1, least(q.queue_ticker_max_count, v_most));
        if q.queue_ticker_max_count > v_most then
            perform pgq.seq_setval(q.queue_event_seq, least(1::bigint << 62,
                nextval(q.queue_event_seq::regclass) + q.queue_ticker_max_count::bigint * 2));
        end if;
    end if;
    return (select max(tick_id) from pgq.tick where tick_queue = q.queue_id);
end $$;
comment on function pgq.force_tick is 'Makes the next pgq.ticker(queue) tick.';
