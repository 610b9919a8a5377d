-- Function: pgq.force_tick(i_queue_name text)
--
-- Makes the next call of pgq.ticker(queue) tick, by moving the event sequence beyond
-- ticker_max_count. It does not tick itself: call the ticker, or wait until the last tick changes.
--
-- A queue that is missing, paused or has an external ticker is left alone, without an error.
--
-- Returns: the current last tick; null for a missing queue.
-- Raises: 40001 as check_snapshot.
-- Writes: setval of the event sequence; as check_snapshot.
create or replace function pgq.force_tick(i_queue_name text)
returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
begin
    perform pgq.check_snapshot();
    select * into q from pgq.queue where queue_name = i_queue_name;
    if found and not q.queue_external_ticker and not q.queue_ticker_paused then
        perform setval(q.queue_event_seq::regclass, nextval(q.queue_event_seq::regclass) + q.queue_ticker_max_count::bigint * 2 + 1000);
    end if;
    return (select max(tick_id) from pgq.tick where tick_queue = q.queue_id);
end
$$;
comment on function pgq.force_tick(text) is 'Makes the next pgq.ticker(queue) tick.';
