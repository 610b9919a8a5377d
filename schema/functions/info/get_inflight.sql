-- What shared consumers have in flight, in events.
-- Parameters: null: all.
-- Returns: lag: since when the front has not moved, though something is new; 0: nothing is. fresh,
--   returned: claimable; the latter also those that were promoted. delayed: retried, and not
--   due yet: get_waiting_events says retrying, or parked with those that wait behind.
--   waiting: behind others of their key. in_pieces: of large ranges, not read yet: an estimate that
--   is not too small. oldest: the age of the first claimable event; null: none is. oldest_claim:
--   since the oldest claim. suspects: one of them may have killed a process. crashes: how often
--   suspects were claimed alone, and the claim never ended.
create or replace function pgq.get_inflight(
    i_queue_name text default null, i_consumer_name text default null,
    out queue_name text, out consumer_name text, out order_key text, out per_key int,
    out limit_in_flight int, out rate double precision, out lag interval, out fresh bigint,
    out returned bigint, out claimed bigint, out delayed bigint, out waiting bigint,
    out in_pieces bigint, out oldest interval, out oldest_claim interval, out suspects bigint,
    out crashes bigint)
returns setof record language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select q.queue_name, c.co_name, s.sub_key, s.sub_per_key, s.sub_limit, s.sub_rate,
           case when pgq.read_sequence('pgq.' || pgq.event_table(q.queue_id) || '_id_seq')
                    > f.front_seq
               then clock_timestamp() - f.front_moved else '0' end,
           i.*, (
               select 1024 * count(distinct (piece_front, piece_group))
                 from pgq.piece where piece_sub = s.sub_id), (
               select clock_timestamp() - min(pgq.inserted_at(q.queue_id, first))
                 from ((select n from pgq.inflight n
                         where run_sub = s.sub_id and run_token = -3 order by run_no limit 1)
                       union all
                       (select n from pgq.inflight n
                         where run_sub = s.sub_id and run_token = 0 order by run_no limit 1)
                      ) run (first)),
           clock_timestamp() - claim.oldest, claim.suspects, claim.crashes
      from pgq.queue q
      join pgq.registration s on s.sub_queue = q.queue_id and s.sub_mode = 'shared'
      join pgq.consumer c on c.co_id = s.sub_consumer
     cross join lateral (
            select * from pgq.front where front_sub = s.sub_id order by front_no desc limit 1) f
     cross join lateral (
            select coalesce(sum(cardinality(run_ids)) filter (where run_token = 0), 0),
                   coalesce(sum(cardinality(run_ids)) filter (where run_token = -3), 0),
                   coalesce(sum(cardinality(run_ids)) filter (where run_token > 0), 0),
                   coalesce(sum(cardinality(run_ids)) filter (where run_token = -1), 0),
                   coalesce(sum(cardinality(run_ids)) filter (where run_token = -2), 0)
              from pgq.inflight where run_sub = s.sub_id) i
     cross join lateral (
            select min(run_claimed) filter (where run_token > 0) as oldest,
                   coalesce(sum(cardinality(run_ids)) filter (where run_part is not null), 0)
                       as suspects,
                   coalesce(sum(greatest(run_crashes, 0)), 0) as crashes
              from pgq.inflight where run_sub = s.sub_id) claim
     where (i_queue_name is null or q.queue_name = i_queue_name)
       and (i_consumer_name is null or c.co_name = i_consumer_name)
     order by 1, 2
$$;
comment on function pgq.get_inflight is 'What shared consumers have in flight, in events.';
