-- Writes a row of the history, for get_history, if the last one is a minute old. It reads ticks,
-- positions and bounded counts; it locks no queue, so neither ticks nor producers wait.
--
-- A database with more than a thousand queues and consumers gets a row less often, a minute for
-- each thousand. So the history of a day stays below some 40 MB.
--
-- The row goes into the table of the last one, or the next table when the first row there is twelve
-- hours old: that is truncated then, and its rows are 24 hours old and older. While a reader holds
-- the lock, such as pg_dump, the last table grows on. A last row that lies more than an hour in the
-- future was written before the clock was stepped back: the history begins anew.
--
-- Of several sessions that call it at once, one writes: it locks pgq.history, and sees the others'
-- rows then. The others return 0, as does a session that would wait for 50 ms.
-- Returns: 1 a row was written; 0: none was due.
-- Raises: nothing; in other isolation levels than READ COMMITTED it does nothing.
-- Writes: SHARE ROW EXCLUSIVE lock pgq.history; insert into and truncate of its tables.
create or replace function pgq.maint_history()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms' as $$
declare
    v_now timestamptz;
    v_last timestamptz;
    v_table int;
    h pgq.history;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0;
    end if;
    lock table only pgq.history in share row exclusive mode;
    v_now := clock_timestamp();
    select hist_time, (select right(relname, 1)::int from pg_class where oid = c.tableoid)
      into v_last, v_table
      from pgq.history c order by hist_time desc limit 1;
    if v_last > v_now + interval '1 hour' then
        truncate pgq.history_0, pgq.history_1, pgq.history_2;
    elsif v_last > v_now - interval '1 second' * greatest(50, ((
            select count(*) from pgq.queue) + (select count(*) from pgq.registration)) * 0.06 - 10)
    then
        return 0;
    elsif (select min(hist_time) < v_now - interval '12 hours' from pgq.history
            where tableoid = to_regclass('pgq.history_' || v_table)) then
        begin
            execute format('truncate pgq.%I', 'history_' || (v_table + 1) % 3);
            v_table := (v_table + 1) % 3;
        exception when lock_not_available then
            null;
        end;
    end if;
    set local lock_timeout = '2s';  -- a compaction may hold positions or ticks
    h.hist_time := v_now;
    select coalesce(array_agg(queue_id), '{}'), coalesce(array_agg(tick_event_seq), '{}')
      into h.hist_queues, h.hist_seqs
      from pgq.queue
     cross join lateral (
            select tick_event_seq from pgq.tick
             where tick_queue = queue_id order by tick_id desc limit 1) t;
    select coalesce(array_agg(r.sub_id), '{}'), coalesce(array_agg(case
                when i.pending_events > 0 then round(extract(epoch from i.lag)::numeric, 1)::real
                when i.pending_events is not null then 0 end), '{}'),
           coalesce(array_agg(i.pending_events), '{}'),
           coalesce(array_agg(c.retry_events::int), '{}'),
           coalesce(array_agg(c.dead_events::int), '{}')
      into h.hist_subs, h.hist_lags, h.hist_pending, h.hist_retries, h.hist_dead
      from pgq.get_consumer_counts() c
      join pgq.get_consumer_info() i using (queue_name, consumer_name)
      join pgq.queue q using (queue_name)
      join pgq.consumer on co_name = consumer_name
      join pgq.registration r on r.sub_queue = q.queue_id and r.sub_consumer = co_id;
    execute format('insert into pgq.%I select ($1).*', 'history_' || coalesce(v_table, 0)) using h;
    return 1;
exception when lock_not_available then
    return 0;
end $$;
comment on function pgq.maint_history is 'Writes a row of the history: 1 written, 0 none was due.';
