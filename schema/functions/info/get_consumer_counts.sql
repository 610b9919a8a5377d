-- How many events each consumer has in the retry queue (retry_events) and among the dead events
-- (dead_events). Counting stops at i_limit for each number, so that a million events cost little.
-- Parameters: i_limit: count up to this many; null: all.
-- Returns: a row for each consumer. Subconsumers have none: their events belong to the consumer.
create or replace function pgq.get_consumer_counts(
    i_limit int default 10000, out queue_name text, out consumer_name text, out retry_events bigint,
    out dead_events bigint)
returns setof record language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select q.queue_name, c.co_name, retry.events, dead.events
      from pgq.registration r
      join pgq.queue q on q.queue_id = r.sub_queue
      join pgq.consumer c on c.co_id = r.sub_consumer
     cross join lateral (select count(*) as events from (
            select from pgq.retry_queue where ev_owner = r.sub_id limit i_limit) bounded) retry
     cross join lateral (select count(*) as events from (
            select from pgq.dead_event where ev_owner = r.sub_id limit i_limit) bounded) dead
     where r.sub_parent is null
     order by 1, 2
$$;
comment on function pgq.get_consumer_counts is 'Retried and dead events of each consumer.';
