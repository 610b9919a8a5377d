-- Adds a cron entry, or changes the one of this name: from now on a ticker daemon inserts the event
-- at each time of the schedule. A changed entry stays paused if it is. It keeps its next due time
-- if the schedule and the time zone stay the same; otherwise the times after now count. A call that
-- changes nothing writes nothing. The schedule is checked for its form only: a daemon reports an
-- entry that it cannot read, and goes on with the others.
-- Parameters: i_schedule: minute, hour, day of month, month, day of week; or @hourly, @daily, ....
--   i_timezone: a name of pg_timezone_names. i_missed: what is done about times at which no daemon
--   ran: 'one' event for the last of them, 'all', or 'skip'. The others: as in insert_event.
-- Returns: 1 added; 0 it was there.
-- Raises: PQ001; PQ009 a name, schedule, time zone or policy that is none.
-- Writes: advisory lock of create_queue; insert or update pgq.cron.
create or replace function pgq.add_cron(
    i_name text, i_queue_name text, i_type text, i_data text, i_schedule text,
    i_timezone text default 'UTC', i_missed text default 'one', i_extra1 text default null,
    i_extra2 text default null, i_extra3 text default null, i_extra4 text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    c pgq.cron;
begin
    perform pgq.check_name('cron entry', i_name, 200);
    if (i_schedule ~ '^(@[A-Za-z]+|[^ ]+( [^ ]+){4})$') is not true then
        raise exception 'schedule "%" has not five fields', i_schedule using errcode = 'PQ009',
            hint = 'write minute, hour, day of month, month and day of week, as 0 7 * * 1-5';
    elsif not exists (select from pg_timezone_names where name = i_timezone) then
        raise exception 'time zone "%" is not known', i_timezone using errcode = 'PQ009',
            hint = 'write a name such as UTC or Europe/Berlin: pg_timezone_names lists them';
    elsif (i_missed in ('one', 'all', 'skip')) is not true then
        raise exception 'missed cannot be "%"', i_missed using errcode = 'PQ009',
            hint = 'write one, all or skip';
    end if;
    -- against drop_queue
    perform pg_advisory_xact_lock(pgq.lock_number('engine'), pgq.lock_number('changing'));
    q := pgq.find_queue(i_queue_name);
    insert into pgq.cron (cron_name, cron_queue, cron_schedule, cron_timezone, cron_missed,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    values (i_name, q.queue_id, i_schedule, i_timezone, i_missed,
        i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4)
    on conflict (cron_name) do nothing;
    if found then
        return 1;
    end if;
    c := pgq.find_cron(i_name);
    if (c.cron_schedule, c.cron_timezone) <> (i_schedule, i_timezone) then
        c.cron_next := null;
        c.cron_planned := clock_timestamp();
    end if;
    update pgq.cron
       set cron_queue = q.queue_id, cron_schedule = i_schedule, cron_timezone = i_timezone,
           cron_missed = i_missed, cron_version = gen_random_uuid(),
           cron_next = c.cron_next, cron_planned = c.cron_planned,
           ev_type = i_type, ev_data = i_data, ev_extra1 = i_extra1, ev_extra2 = i_extra2,
           ev_extra3 = i_extra3, ev_extra4 = i_extra4
     where cron_name = i_name
       and (cron_queue, cron_schedule, cron_timezone, cron_missed,
            ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
           is distinct from (q.queue_id, i_schedule, i_timezone, i_missed,
            i_type, i_data, i_extra1, i_extra2, i_extra3, i_extra4);
    return 0;
end $$;
comment on function pgq.add_cron is 'Has an event inserted at each time of a schedule.';
