-- Whether a queue is due for a tick now, by PGQ's rule: see tick_wanted.
-- Takes no xid.
create or replace function pgq.tick_is_due(q pgq.queue)
returns boolean language plpgsql as $$
declare
    t record;
    v_new bigint;
    v_lag interval;
begin
    select max(tick_time) filter (where n = 1) as last,
           max(tick_time) filter (where n = 2) as previous,
           max(tick_event_seq) filter (where n = 1) as seq
      into t
      from (select tick_time, tick_event_seq, row_number() over (order by tick_id desc) as n
              from pgq.tick where tick_queue = q.queue_id order by tick_id desc limit 2) two;
    v_new := pgq.seq_getval(q.queue_event_seq) - t.seq;
    v_lag := clock_timestamp() - t.last;
    if v_new < 0 then
        raise warning 'Negative new_events?  old=% cur=%', t.seq, t.seq + v_new;
    end if;
    return pgq.tick_wanted(v_new, v_lag, t.last - t.previous,
        q.queue_ticker_max_count, q.queue_ticker_max_lag, q.queue_ticker_idle_period);
end $$;
