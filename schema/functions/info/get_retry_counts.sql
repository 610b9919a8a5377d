-- How many events of a consumer wait in the retry queue, by when they are due: now, within a
-- minute, an hour or a day, or later. Each event is in one row, the first that fits.
-- Parameters: i_limit: count at most so many events, whichever are found first; null: all.
-- Returns: rows with events, the soonest first. due_within: null: later than in a day.
-- Raises: PQ002 not a subscriber.
create or replace function pgq.get_retry_counts(
    i_queue_name text, i_consumer_name text, i_limit int default 10000, out due_within interval,
    out retry_events bigint)
returns setof record language plpgsql stable security definer
set search_path = pg_catalog, pg_temp as $$
declare
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    select (select w from unnest('{0,1 min,1 hour,1 day}'::interval[]) w
             where ev_retry_after <= v_now + w order by w limit 1), count(*)
      from (select ev_retry_after from pgq.retry_queue where ev_owner = v_sub limit i_limit) bounded
     group by 1 order by 1;
end $$;
comment on function pgq.get_retry_counts is 'A consumer''s retried events, by when they are due.';
