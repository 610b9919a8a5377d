-- The next due time of a cron entry; null: it is to be planned. A time that was planned under a
-- clock that ran ahead does not count: the entry would wait until the clock is there again.
-- It is inlined into the query that calls it.
create or replace function pgq.planned_due(c pgq.cron)
returns timestamptz language sql volatile as $$
    select case when c.cron_planned <= clock_timestamp() + interval '1 minute' then c.cron_next end
$$;
