-- Table: pgq.cron. The cron entries: which event to insert into which queue, at which times. PGQ
-- has no such table.
--
-- cron_next is the next due time, which a ticker daemon has planned: the server cannot read
-- schedules. fire_cron inserts the event of that time, and no other, and plans the next one in the
-- same transaction. So each time was agreed on before it came. If daemons computed the times anew
-- at each poll, two of them with different time zone data would fire twice.
--
-- cron_next null: a daemon is to plan the first time after cron_planned. In a row that was planned
-- later than now, the clock has been stepped back: see planned_due.
--
-- No index has a column that changes: an update stays in its page, and leaves nothing for vacuum.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.cron (
    cron_name text collate "C" primary key,
    cron_queue int not null references pgq.queue,
    cron_schedule text not null,
    cron_timezone text not null,
    cron_missed text not null check (cron_missed in ('one', 'all', 'skip')),
    cron_version uuid not null default gen_random_uuid(),  -- another one after each change
    cron_next timestamptz,
    cron_planned timestamptz not null default clock_timestamp(),
    cron_last_due timestamptz,  -- the time of the last event; null: there was none
    cron_paused timestamptz,  -- since when; null: not paused
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgq.cron is 'Events that the ticker inserts by the clock: see add_cron.';
end if; end $$;
