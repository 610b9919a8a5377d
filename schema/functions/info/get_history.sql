-- The history of a queue, or of one of its consumers: what maint_history wrote, a row for each
-- minute in which the ticker ran.
-- Parameters: i_since: from this time on; null: the last 24 hours. Up to 36 hours are there.
--   i_consumer_name: null: the queue.
-- Returns: ordered by hist_time. ev_per_sec: how many event ids the queue used since the row
--   before, as its ticks count them; null in the first row of all. The rest is the consumer's, or
--   of the queue's present consumers the largest lag and pending_events and the sums of the counts,
--   each bounded by 10,000 for a consumer; null where there was none, or it was unknown. lag: the
--   age of the last finished tick, 0 while no event is pending.
-- Raises: PQ001; PQ002.
create or replace function pgq.get_history(
    i_queue_name text, i_since timestamptz default null, i_consumer_name text default null,
    out hist_time timestamptz, out ev_per_sec float8, out lag interval, out pending_events bigint,
    out retry_events bigint, out dead_events bigint, out parked_events bigint)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_queue int := (pgq.find_queue(i_queue_name)).queue_id;
    v_since timestamptz := coalesce(i_since, clock_timestamp() - interval '24 hours');
    v_full timestamptz;  -- what a row leaves out is in the rows from here on
    v_subs int[];
begin
    if i_consumer_name is null then
        v_subs := array(
            select sub_id from pgq.registration where sub_queue = v_queue and sub_parent is null);
    else
        v_subs := array[pgq.find_subscription(i_queue_name, i_consumer_name)];
    end if;
    select max(f.hist_time) into v_full
      from pgq.history f where f.hist_full and f.hist_time <= v_since;
    return query
    with minute as materialized (
        select m.* from pgq.history m where m.hist_time >= coalesce(v_full, '-infinity')
    ), inserted as (
        select t.hist_time, t.seq, t.seq - lag(t.seq) over (order by t.hist_time) as events,
               extract(epoch from t.hist_time - lag(t.hist_time) over (order by t.hist_time))
                   ::float8 as seconds
          from (
                select s.hist_time, first_value(s.seq) over (
                        partition by s.run order by s.hist_time) as seq
                  from (
                        select m.hist_time, m.hist_seqs[p.place] as seq, count(
                                case when p.place is not null or m.hist_full then 1 end)
                                over (order by m.hist_time) as run
                          from minute m
                         cross join lateral array_position(m.hist_queues, v_queue) p (place)) s) t
    ), changed as (
        select m.hist_time, u.*
          from minute m
         cross join lateral unnest(m.hist_subs, m.hist_lags, m.hist_pending, m.hist_retries,
                m.hist_dead, m.hist_parked) u (sub, lag, pending, retries, dead, parked)
         where u.sub = any (v_subs)
    ), known as (
        select m.hist_time, s.sub, c.lag, c.pending, c.retries, c.dead, c.parked,
               count(case when c.sub is not null or m.hist_full then 1 end)
                   over (partition by s.sub order by m.hist_time) as run
          from minute m
         cross join unnest(v_subs) s (sub)
          left join changed c on c.hist_time = m.hist_time and c.sub = s.sub
    ), consumers as (
        select k.hist_time, max(k.lag) as lag, max(k.pending) as pending,
               sum(k.retries)::bigint as retries, sum(k.dead)::bigint as dead,
               sum(k.parked)::bigint as parked
          from (
                select r.hist_time, first_value(r.lag) over same as lag,
                       first_value(r.pending) over same as pending,
                       first_value(r.retries) over same as retries,
                       first_value(r.dead) over same as dead,
                       first_value(r.parked) over same as parked
                  from known r
                window same as (partition by r.sub, r.run order by r.hist_time)) k
         group by k.hist_time
    )
    select i.hist_time, case when i.events is not null
               then greatest(i.events, 0) / nullif(i.seconds, 0) end,
           c.lag * interval '1 second', c.pending, c.retries, c.dead, c.parked
      from inserted i
      left join consumers c on c.hist_time = i.hist_time
     where i.hist_time >= v_since and i.seq is not null  -- the queue was there
     order by i.hist_time;
end $$;
comment on function pgq.get_history is 'The last day of a queue or consumer, a row a minute.';
