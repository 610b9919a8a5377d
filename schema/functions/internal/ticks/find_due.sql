-- The names of the queues with ids from i_first to i_last that are due for a tick: see tick_wanted.
-- One query checks all, as one for each takes five times as long. If it fails, one for each finds
-- out which queue is broken: that one is due, so that its tick tells the error. A queue that is
-- being dropped is left out.
-- Writes: shared advisory locks, see ticker_activity; takes no xid.
create or replace function pgq.find_due(i_first int, i_last int)
returns text[] language plpgsql as $$
declare
    v_due text[];
    v_now constant timestamptz := clock_timestamp();
begin
    select array_agg(looked.queue_name) into v_due
      from (
            select *, to_regclass(queue_event_seq) as seq
              from pgq.queue
             where queue_id between i_first and i_last
               and not queue_external_ticker and not queue_ticker_paused
               and pg_try_advisory_xact_lock_shared(pgq.lock_number('queue'), queue_id)) looked
     cross join lateral (
            select coalesce(pg_sequence_last_value(seq), 0) - seqs[1] as new,
                   v_now - times[1] as lag, times[1] - times[2] as gap
              from (
                    select array_agg(tick_time) as times, array_agg(tick_event_seq) as seqs
                      from (select tick_time, tick_event_seq from pgq.tick
                             where tick_queue = looked.queue_id
                             order by tick_id desc limit 2) two) ticks) since
     where seq is null
        or pgq.tick_wanted(new, lag, gap,
            queue_ticker_max_count, queue_ticker_max_lag, queue_ticker_idle_period);
    return v_due;
exception when others then
    return array(
        select name from pgq.queue
         cross join unnest(case when i_first = i_last then array[queue_name]
                                else pgq.find_due(queue_id, queue_id) end) name
         where queue_id between i_first and i_last);
end $$;
