-- Settings and state of queues: the age of the last tick, events a second over the last 20 ticks,
-- events since the last tick. A value is null if a missing tick, or a sequence that is missing or
-- stays locked, makes it unknown, and the other queues are listed all the same (G7).
-- Returns: no row for an unknown queue.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_queue_info(
    i_queue_name text default null,
    out queue_name text, out queue_ntables int, out queue_cur_table int,
    out queue_rotation_period interval, out queue_switch_time timestamptz,
    out queue_external_ticker boolean, out queue_ticker_paused boolean,
    out queue_ticker_max_count int, out queue_ticker_max_lag interval,
    out queue_ticker_idle_period interval, out ticker_lag interval, out ev_per_sec float8,
    out ev_new bigint, out last_tick_id bigint)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.check_snapshot();
    select q.queue_name, q.queue_ntables, q.queue_cur_table, q.queue_rotation_period,
           q.queue_switch_time, q.queue_external_ticker, q.queue_ticker_paused,
           q.queue_ticker_max_count, q.queue_ticker_max_lag, q.queue_ticker_idle_period,
           now() - t.ticked,
           case when t.last_time > t.first_time
                then (t.last_seq::float8 - t.first_seq)
                     / extract(epoch from t.last_time - t.first_time)::float8 end,
           pgq.read_sequence(q.queue_event_seq) - t.last_seq,
           t.last_id
      from pgq.queue q
     cross join lateral (
            select max(tick_id) as last_id,
                   (array_agg(tick_time order by tick_id desc))[1] as ticked,
                   max(tick_time) as last_time, min(tick_time) as first_time,
                   max(tick_event_seq) as last_seq, min(tick_event_seq) as first_seq
              from (
                    select * from pgq.tick
                     where tick_queue = q.queue_id order by tick_id desc limit 20) twenty) t
     where i_queue_name is null or q.queue_name = i_queue_name
     order by 1
$$;
comment on function pgq.get_queue_info is 'Settings and state of queues.';
