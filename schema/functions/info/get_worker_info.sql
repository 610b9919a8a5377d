-- Who works for each consumer, and on what: the consumer itself (worker is null), then the workers
-- of a shared one, or the lanes of one that has lanes.
--
-- A nested loop would read the list of locks once for each worker: with 900 of them that took 30 ms
-- instead of 4.
-- Parameters: null: all.
-- Returns: alive: true: a session holds the advisory lock of the subscription, or the lease has not
--   ended; false: another worker may take the range over; null: the server cannot know: compare
--   last_seen, since the last heartbeat, with the dead_interval. last_move: since the last
--   progress. pid: the session with the lock. lease_left: negative if it has ended. messages: the
--   events of a lease that are not finished. attempt: 1, and one for each process that is known to
--   have died with the range, or each lease that ended. part_size: the largest part in careful
--   mode. tries: how often a process died while it handled only the first event after finished_to.
--   filter: null: all events. lag: the age of the last finished tick; negative: it is ahead.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_worker_info(
    i_queue_name text default null, i_consumer_name text default null,
    out queue_name text, out consumer_name text, out mode text, out worker text, out alive boolean,
    out pid int, out holder text, out current_batch bigint, out last_tick bigint,
    out next_tick bigint, out finished_to bigint, out messages int, out lease_left interval,
    out last_seen interval, out last_move interval, out attempt int, out part_size int,
    out tries int, out filter jsonb, out lag interval)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
    select pgq.check_snapshot();
    with locked as materialized (
        select classid, objid, min(pid) as pid from pg_locks
         where locktype = 'advisory' and objsubid = 2 and granted
           and classid in (pgq.lock_number('consumer'), pgq.lock_number('run'))
           and database = (select oid from pg_database where datname = current_database())
         group by 1, 2)
    select q.queue_name, parent.co_name, r.sub_mode,
           case when p.sub_parent is not null
               then substr(c.co_name, length(parent.co_name) + 2) end,
           case when p.sub_parent is not null and p.pos_batch is not null
                    and p.pos_until is not null
               then not pgq.lease_is_over(p.pos_until, p.pos_active)
                when l.objid is not null then true
                when p.pos_batch is not null and p.pos_holder is not null then false end,
           l.pid, p.pos_holder, p.pos_batch, p.pos_last_tick, p.pos_next_tick, p.pos_from,
           cardinality(p.pos_ids),
           case when isfinite(p.pos_until) and p.pos_batch is not null
                    and p.sub_parent is not null then p.pos_until - clock_timestamp() end,
           clock_timestamp() - p.pos_active, clock_timestamp() - p.pos_moved,
           case when p.pos_batch is not null then 1 + coalesce(p.pos_tries, 0)
                + case when p.pos_died is not null or p.pos_tries > 0
                    then case p.pos_part when 1000 then 1 when 30 then 2 when 1 then 3 else 0 end
                    else 0 end end,
           p.pos_part, p.pos_tries, p.sub_filter - 'lane', (
            select now() - tick_time from pgq.tick
             where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1)
      from pgq.current_position p
      join pgq.queue q on q.queue_id = p.sub_queue
      join pgq.consumer c on c.co_id = p.sub_consumer
      join pgq.registration r on r.sub_id = coalesce(p.sub_parent, p.sub_id)
      join pgq.consumer parent on parent.co_id = r.sub_consumer
      left join locked l
        on (l.classid, l.objid) = case when p.sub_mode is distinct from 'lane'
            then row(pgq.lock_number('consumer')::oid, p.sub_id::oid)
            else row(pgq.lock_number('run')::oid, case when p.pos_batch is not null
                then hashtext(p.pos_holder) end::oid) end
     where (i_queue_name is null or q.queue_name = i_queue_name)
       and (i_consumer_name is null or parent.co_name = i_consumer_name)
     order by 1, 2, p.sub_parent nulls first, length(c.co_name), c.co_name
$$;
comment on function pgq.get_worker_info is 'Workers of consumers: what they have, and if alive.';
