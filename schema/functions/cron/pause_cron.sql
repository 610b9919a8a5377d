-- Pauses a cron entry: nothing is due until resume_cron.
-- Returns: 1; 0 it was paused.
-- Raises: PQ023 No such cron entry.
-- Writes: as find_cron; update pgq.cron.
create or replace function pgq.pause_cron(i_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c constant pgq.cron := pgq.find_cron(i_name);
begin
    update pgq.cron set cron_paused = clock_timestamp()
     where cron_name = c.cron_name and cron_paused is null;
    return found::int;
end $$;
comment on function pgq.pause_cron is 'Stops a cron entry until resume_cron.';
