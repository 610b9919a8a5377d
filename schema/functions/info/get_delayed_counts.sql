-- How many delayed events each queue has, and for how long the first of them has been due.
-- Parameters: i_limit: count up to this many in each queue; null: all.
-- Returns: a row for each queue. overdue: null: nothing is due.
create or replace function pgq.get_delayed_counts(
    i_limit int default 10000, out queue_name text, out delayed_events bigint,
    out overdue interval)
returns setof record language sql stable security definer
set search_path = pg_catalog, pg_temp as $$
    select q.queue_name, delayed.events,
           case when delayed.first <= clock_timestamp() then clock_timestamp() - delayed.first end
      from pgq.queue q
     cross join lateral (select count(*) as events, min(ev_deliver_at) as first from (
            select ev_deliver_at from pgq.delayed_event
             where ev_queue = q.queue_id order by ev_deliver_at limit i_limit) bounded) delayed
     order by 1
$$;
comment on function pgq.get_delayed_counts is 'How many delayed events each queue has.';
