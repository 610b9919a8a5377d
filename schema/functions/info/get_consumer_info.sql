-- The positions of consumers. lag: the age of the last finished tick. last_seen: the time since the
-- consumer's last call. pending_events: how many event ids lie between its tick and the queue's
-- last one; if there are none, the events of transactions that were open at its tick, counted up to
-- 1,000: see range_txids.
--
-- If the last finished tick lies in the future, the clock was ahead then: lag is the age of the
-- first later tick that does not, so old it is at least; else 0. A consumer with subconsumers is
-- where the slowest one is, and was seen when one of them was. A subconsumer without a range has no
-- tick.
-- Parameters: null: all.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_consumer_info(
    i_queue_name text default null, i_consumer_name text default null,
    out queue_name text, out consumer_name text, out lag interval, out last_seen interval,
    out last_tick bigint, out current_batch bigint, out next_tick bigint, out pending_events bigint)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.check_snapshot();
    select q.queue_name, c.co_name,
           now() - case when done.tick_time > now() then coalesce((
                    select t.tick_time from pgq.tick t
                     where t.tick_queue = q.queue_id and t.tick_id > s.reached
                       and t.tick_time <= now()
                     order by t.tick_id limit 1), now())
                else done.tick_time end,
           now() - s.seen, s.reached, s.pos_batch, s.pos_next_tick,
           case when newest.tick_event_seq <= done.tick_event_seq and newest.tick_id > done.tick_id
               then cardinality(pgq.range_txids(
                   q.queue_id, done.tick_snapshot, newest.tick_snapshot, 1000))
               else newest.tick_event_seq - done.tick_event_seq end
      from pgq.queue q
      join (
            select p.*, least(p.pos_last_tick, w.slowest) as reached,
                   greatest(p.pos_active, w.seen) as seen
              from pgq.current_position p
             cross join lateral (
                    select min(pos_last_tick) as slowest, max(pos_active) as seen
                      from pgq.current_position where sub_parent = p.sub_id) w) s
        on s.sub_queue = q.queue_id
      join pgq.consumer c on c.co_id = s.sub_consumer
      left join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id and tick_id = s.reached
             limit 1) done on true  -- without the limit it reads all ticks for each consumer
     cross join lateral (
            select * from pgq.tick
             where tick_queue = q.queue_id order by tick_id desc limit 1) newest
     where (i_queue_name is null or q.queue_name = i_queue_name)
       and (i_consumer_name is null or c.co_name = i_consumer_name)
     order by 1, 2
$$;
comment on function pgq.get_consumer_info is 'The positions of consumers.';
