-- The consumers that a rotation waits for, and those that are detached. A rotation waits for a
-- consumer if it is due, and the consumer has not had all events of the next table, and is behind
-- for a rotation period.
-- Returns: policy, stall_after, stall_bytes: see set_stall_policy. detached: since when; null:
--   attached. held_since, held_for: the time of the first tick that the consumer has not finished.
--   held_bytes: the size of the queue's event tables; null where a session holds a table's lock.
--   exceeded: more than the policy allows, by the clock, or it is detached. is_live: no event after
--   its position was truncated.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_stalled_info(
    i_queue_name text default null, out queue_name text, out consumer_name text, out policy text,
    out stall_after interval, out stall_bytes bigint, out detached timestamptz,
    out held_since timestamptz, out held_for interval, out held_bytes bigint,
    out exceeded boolean, out is_live boolean)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.check_snapshot();
    select q.queue_name, c.co_name, r.sub_stalls, r.sub_stall_after, r.sub_stall_bytes,
           r.sub_detached, n.tick_time, clock_timestamp() - n.tick_time, b.bytes,
           r.sub_detached is not null
               or coalesce(clock_timestamp() - n.tick_time >= r.sub_stall_after, false)
               or coalesce(b.bytes >= r.sub_stall_bytes, false)
               or r.sub_stall_after is null and r.sub_stall_bytes is null,
           p.last_tick >= first.tick_id
      from pgq.queue q
      join pgq.registration r on r.sub_queue = q.queue_id and r.sub_parent is null
      join pgq.consumer c on c.co_id = r.sub_consumer
     cross join lateral (
            select min(pos_last_tick) as last_tick from pgq.current_position
             where sub_id = r.sub_id or sub_parent = r.sub_id) p
     cross join lateral (
            select tick_id from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
             order by tick_id limit 1) first
      left join lateral (
            select tick_time from pgq.tick
             where r.sub_detached is null and tick_queue = q.queue_id and tick_id > p.last_tick
             order by tick_id limit 1) n on true
     cross join lateral (
            select case when r.sub_detached is null then pgq.event_bytes(q) end as bytes) b
     where (i_queue_name is null or q.queue_name = i_queue_name)
       and case when r.sub_detached is not null then true
                when pgq.is_rotation_due(q)
                    and (n.tick_time + q.queue_rotation_period < clock_timestamp()
                        or n.tick_time > clock_timestamp())  -- the clock was ahead
                then pgq.keeps_table(q, p.last_tick)
                else false end
     order by 1, 2
$$;
comment on function pgq.get_stalled_info is 'Consumers that rotation waits for, or detached.';
