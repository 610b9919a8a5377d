-- Writes a row of the history, for get_history, if the last one is a minute old. It reads ticks,
-- positions and bounded counts; it locks no queue, so neither ticks nor producers wait.
--
-- A database with more than a thousand queues and consumers gets a row less often, a minute for
-- each thousand. So the history of a day stays below some 40 MB, and normally at 1 to 4.
--
-- Of several sessions that call it at once, one writes: it locks pgq.history, and sees the others'
-- rows then. The others return 0, as does a session that would wait for 50 ms.
-- Returns: 1 a row was written; 0: none was due.
-- Raises: nothing; in other isolation levels than READ COMMITTED it does nothing.
-- Writes: SHARE ROW EXCLUSIVE lock pgq.history; insert into one of its tables; as choose_history.
create or replace function pgq.maint_history()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms' as $$
declare
    v_now timestamptz;
    v_table int;
    v_new boolean;
    v_full timestamptz;
    h pgq.history;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0;
    end if;
    lock table only pgq.history in share row exclusive mode;
    set local lock_timeout = '2s';  -- a compaction may hold positions or ticks
    v_now := clock_timestamp();
    select table_no, is_new into v_table, v_new
      from pgq.choose_history(v_now, greatest(50, ((
                select count(*) from pgq.queue) + (select count(*) from pgq.registration)
            ) * 60 / 1000 - 10) * interval '1 second');
    if v_table is null then
        return 0;
    end if;
    if not v_new then
        select max(hist_time) into v_full
          from pgq.history where hist_full and hist_time > v_now - interval '1 hour';
    end if;
    h.hist_time := v_now;
    h.hist_full := v_full is null;
    select coalesce(array_agg(n.queue_id), '{}'), coalesce(array_agg(n.seq), '{}')
      into h.hist_queues, h.hist_seqs
      from (
            select queue_id, t.tick_event_seq as seq
              from pgq.queue
             cross join lateral (
                    select tick_event_seq from pgq.tick
                     where tick_queue = queue_id order by tick_id desc limit 1) t) n
      left join (
            select distinct on (queue_id) queue_id, seq
              from pgq.history
             cross join lateral unnest(hist_queues, hist_seqs) u (queue_id, seq)
             where hist_time >= v_full order by queue_id, hist_time desc) o using (queue_id)
     where o.queue_id is null or o.seq <> n.seq;
    select coalesce(array_agg(n.sub), '{}'), coalesce(array_agg(n.lag), '{}'),
           coalesce(array_agg(n.pending), '{}'), coalesce(array_agg(n.retries), '{}'),
           coalesce(array_agg(n.dead), '{}'), coalesce(array_agg(n.parked), '{}')
      into h.hist_subs, h.hist_lags, h.hist_pending, h.hist_retries, h.hist_dead, h.hist_parked
      from (
            select r.sub_id as sub, case when i.pending_events > 0
                        then round(extract(epoch from i.lag)::numeric, 1)::real
                        when i.pending_events is not null then 0 end as lag,
                   i.pending_events as pending, c.retry_events::int as retries,
                   c.dead_events::int as dead, c.parked_events::int as parked
              from pgq.get_consumer_counts() c
              join pgq.get_consumer_info() i using (queue_name, consumer_name)
              join pgq.queue q using (queue_name)
              join pgq.consumer on co_name = consumer_name
              join pgq.registration r on r.sub_queue = q.queue_id and r.sub_consumer = co_id) n
      left join (
            select distinct on (sub) u.*
              from pgq.history
             cross join lateral unnest(hist_subs, hist_lags, hist_pending, hist_retries, hist_dead,
                    hist_parked) u (sub, lag, pending, retries, dead, parked)
             where hist_time >= v_full order by sub, hist_time desc) o using (sub)
     where (n.lag, n.pending, n.retries, n.dead, n.parked)
        is distinct from (o.lag, o.pending, o.retries, o.dead, o.parked);
    execute format('insert into pgq.%I select ($1).*', 'history_' || v_table) using h;
    return 1;
exception when lock_not_available then
    return 0;
end $$;
comment on function pgq.maint_history is 'Writes a row of the history: 1 written, 0 none was due.';
