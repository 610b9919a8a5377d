-- How many events each consumer has in the retry queue (retry_events), among the dead events
-- (dead_events) and among the parked ones (parked_events, of parked_keys keys; parked_for: how long
-- the first of them waits). Counting stops at i_limit for each number, so that a million events
-- cost little; parked_for then is that of the counted keys.
-- Parameters: i_limit: count up to this many; null: all.
-- Returns: a row for each consumer. Subconsumers have none: their events belong to the consumer.
create or replace function pgq.get_consumer_counts(
    i_limit int default 10000, out queue_name text, out consumer_name text, out retry_events bigint,
    out dead_events bigint, out parked_events bigint, out parked_keys bigint,
    out parked_for interval)
returns setof record language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select q.queue_name, c.co_name, retry.events, dead.events, parked.events, heads.keys,
           clock_timestamp() - heads.since
      from pgq.registration r
      join pgq.queue q on q.queue_id = r.sub_queue
      join pgq.consumer c on c.co_id = r.sub_consumer
     cross join lateral (select count(*) as events from (
            select from pgq.retry_queue where ev_owner = r.sub_id limit i_limit) bounded) retry
     cross join lateral (select count(*) as events from (
            select from pgq.dead_event where ev_owner = r.sub_id limit i_limit) bounded) dead
     cross join lateral (select count(*) as events from (
            select from pgq.parked where ev_owner = r.sub_id limit i_limit) bounded) parked
     cross join lateral (select count(distinct park_key) as keys, min(park_since) as since from (
            select park_key, park_since from pgq.parked
             where ev_owner = r.sub_id and park_after is not null limit i_limit) bounded) heads
     where r.sub_parent is null
     order by 1, 2
$$;
comment on function pgq.get_consumer_counts is 'Retried, dead and parked events of each consumer.';
