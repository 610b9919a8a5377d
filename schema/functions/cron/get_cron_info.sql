-- The cron entries, without the data and extras of their events.
-- Parameters: i_name: null: all entries.
-- Returns: no row for an unknown name. next_due: null: to be planned, as the first time after
--   planned_at. read_at: the server's time.
create or replace function pgq.get_cron_info(
    i_name text default null, out cron_name text, out queue_name text, out ev_type text,
    out schedule text, out timezone text, out missed text, out paused_since timestamptz,
    out next_due timestamptz, out last_due timestamptz, out planned_at timestamptz,
    out version uuid, out read_at timestamptz)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select c.cron_name, q.queue_name, c.ev_type, c.cron_schedule, c.cron_timezone, c.cron_missed,
           c.cron_paused, pgq.planned_due(c), c.cron_last_due, least(c.cron_planned, now()),
           c.cron_version, now()
      from pgq.cron c
      join pgq.queue q on q.queue_id = c.cron_queue
     where i_name is null or c.cron_name = i_name
     order by 1
$$;
comment on function pgq.get_cron_info is 'Cron entries: when they are due.';
