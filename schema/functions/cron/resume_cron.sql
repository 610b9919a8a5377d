-- Ends the pause of a cron entry. The times after now count: those in the pause were not missed.
-- Returns: 1; 0 it was not paused.
-- Raises: PQ023 No such cron entry.
-- Writes: as find_cron; update pgq.cron.
create or replace function pgq.resume_cron(i_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c constant pgq.cron := pgq.find_cron(i_name);
begin
    update pgq.cron set cron_paused = null, cron_next = null, cron_planned = clock_timestamp()
     where cron_name = c.cron_name and cron_paused is not null;
    return found::int;
end $$;
comment on function pgq.resume_cron is 'Ends the pause of a cron entry.';
