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
    out retry_events bigint, out dead_events bigint)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_queue int := (pgq.find_queue(i_queue_name)).queue_id;
    v_since timestamptz := coalesce(i_since, clock_timestamp() - interval '24 hours');
    v_subs int[];
begin
    if i_consumer_name is null then
        v_subs := array(
            select sub_id from pgq.registration where sub_queue = v_queue and sub_parent is null);
    else
        v_subs := array[pgq.find_subscription(i_queue_name, i_consumer_name)];
    end if;
    return query
    with points as (
        select m.hist_time as at, m.hist_seqs[p.place] as seq, c.*
          from pgq.history m
         cross join lateral array_position(m.hist_queues, v_queue) p (place)
         cross join lateral (
                select max(u.lag) as lag, max(u.pending) as pending, sum(u.retries) as retries,
                       sum(u.dead) as dead
                  from unnest(m.hist_subs, m.hist_lags, m.hist_pending, m.hist_retries,
                        m.hist_dead) u (sub, lag, pending, retries, dead)
                 where u.sub = any (v_subs)) c
         where p.place is not null and m.hist_time >= coalesce((  -- the row before, for rates
                select max(b.hist_time) from pgq.history b where b.hist_time < v_since), v_since)
    ), rates as (
        select s.*, greatest(s.seq - lag(s.seq) over earlier, 0) as events,
               extract(epoch from s.at - lag(s.at) over earlier)::float8 as seconds
          from points s window earlier as (order by s.at)
    )
    select r.at, r.events / nullif(r.seconds, 0), r.lag * interval '1 second', r.pending,
           r.retries, r.dead
      from rates r where r.at >= v_since order by r.at;
end $$;
comment on function pgq.get_history is 'The last day of a queue or consumer, a row a minute.';
