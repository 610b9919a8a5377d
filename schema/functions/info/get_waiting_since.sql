-- Since when events wait for a consumer. The earliest of: the time of the first tick after its
-- position with which events came; the time of the tick at the end of an open batch, its own or
-- that of a subconsumer.
--
-- A tick whose sequence is higher came with events. One with the same sequence may have events of
-- transactions that were open before: see range_txids.
-- Returns: null: no events wait, or there is no such consumer.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_waiting_since(i_queue_name text, i_consumer_name text)
returns timestamptz language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s record;
    done pgq.tick;
    v_late bigint[];
    v_first bigint;
begin
    perform pgq.check_snapshot();
    select p.sub_queue, min(every.pos_last_tick) as reached,
           min(every.pos_next_tick) filter (where every.pos_batch is not null) as opened
      into s
      from pgq.queue q
      join pgq.consumer c on c.co_name = i_consumer_name
      join pgq.current_position p on p.sub_queue = q.queue_id and p.sub_consumer = c.co_id
      join pgq.current_position every on p.sub_id in (every.sub_id, every.sub_parent)
     where q.queue_name = i_queue_name
     group by 1;
    select * into done
      from pgq.tick where tick_queue = s.sub_queue and tick_id = s.reached limit 1;
    select tick_id into v_first
      from pgq.tick
     where tick_queue = s.sub_queue and tick_id > done.tick_id
       and tick_event_seq > done.tick_event_seq
     order by tick_id limit 1;
    v_late := pgq.range_txids(s.sub_queue, done.tick_snapshot, (
        select tick_snapshot from pgq.tick
         where tick_queue = s.sub_queue and (tick_id < v_first) is not false
         order by tick_id desc limit 1), 1000);  -- before the ids of v_first
    v_first := least(v_first, (
        select tick_id from pgq.tick
         where tick_queue = s.sub_queue and tick_id > done.tick_id and exists (
                select from unnest(v_late) x where txid_visible_in_snapshot(x, tick_snapshot))
         order by tick_id limit 1));
    return (
        select tick_time from pgq.tick
         where tick_queue = s.sub_queue and tick_id = least(v_first, s.opened) limit 1);
end $$;
comment on function pgq.get_waiting_since is 'Since when events wait for a consumer.';
