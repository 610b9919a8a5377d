-- The queues with ids from i_first to i_last that pgq.ticker(queue) would tick now. A queue that
-- cannot be checked is listed, so that the ticker gets its error when it ticks that queue. A queue
-- that is being dropped is left out.
--
-- One query checks all queues, because calls of tick_is_due take five times as long. If the query
-- fails, the calls find out which queue is broken.
--
-- Writes: as try_lock_against_drop; takes no xid.
create or replace function pgq.ticker_due(
    i_first int default -2147483648, i_last int default 2147483647)
returns setof text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_due text[];
    v_now constant timestamptz := clock_timestamp();
begin
    begin
        select array_agg(looked.queue_name) into v_due
          from (
                select *, to_regclass(queue_event_seq) as seq
                  from pgq.queue
                 where queue_id between i_first and i_last
                   and not queue_external_ticker and not queue_ticker_paused
                   and pgq.try_lock_against_drop(queue_id)) looked
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
        return query select unnest(v_due);
        return;
    exception when others then
        null;
    end;
    for q in
        select * from pgq.queue
         where queue_id between i_first and i_last
           and not queue_external_ticker and not queue_ticker_paused
    loop
        begin
            if pgq.try_lock_against_drop(q.queue_id) and pgq.tick_is_due(q) then
                return next q.queue_name;
            end if;
        exception when others then
            return next q.queue_name;
        end;
    end loop;
end $$;
comment on function pgq.ticker_due is 'The queues that pgq.ticker(queue) would tick now.';
