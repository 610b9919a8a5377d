-- What queues keep: how many events, since when, in how many bytes. It reads ticks and no event:
-- the cost depends neither on the number of events nor on who inserts just now. An event counts as
-- long as no event since its tick was truncated; some older events may still be stored. Its age is
-- that of the tick that counts it: up to ticker_max_lag less, for older events a second less.
-- Parameters: i_queue_name: null: all queues.
-- Returns: no row for an unknown queue. oldest_event_age and newest_event_age: null without events;
--   about zero: no tick has counted the event yet. estimated_events: the ids used up, also by
--   transactions that rolled back. A value that cannot be read is null, as in get_queue_info.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_queue_metrics(
    i_queue_name text default null, out queue_name text, out queue_created timestamptz,
    out oldest_event_age interval, out newest_event_age interval, out estimated_events bigint,
    out total_bytes bigint)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.check_snapshot();
    with clock as materialized (select clock_timestamp() as now)
    select q.queue_name, q.queue_created,
           clock.now - oldest, clock.now - newest, s.events, pgq.event_bytes(q)
      from pgq.queue q
     cross join clock
      left join lateral (
            select tick_id, tick_event_seq from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
             order by tick_id limit 1) first on true
      left join lateral (
            select tick_id from pgq.tick
             where tick_queue = q.queue_id order by tick_id desc limit 1) last on true
     cross join lateral (
            select n as last_id,
                   case when n is not null then greatest(n - first.tick_event_seq, 0) end as events
              from pgq.read_sequence(q.queue_event_seq) n) s
      left join lateral (
            select coalesce(t.oldest, clock.now), coalesce(t.newest, clock.now)
              from (values (
                        pgq.first_tick_time(q.queue_id, first.tick_event_seq + 1, null,
                            first.tick_id, last.tick_id),
                        pgq.first_tick_time(q.queue_id, s.last_id, null,
                            first.tick_id, last.tick_id))) t (oldest, newest)
             where s.events > 0) t (oldest, newest) on true
     where i_queue_name is null or q.queue_name = i_queue_name
     order by 1
$$;
comment on function pgq.get_queue_metrics is 'How many events queues keep, and how large.';
