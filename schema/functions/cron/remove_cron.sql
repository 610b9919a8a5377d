-- Removes a cron entry. Events that it inserted stay.
-- Returns: 1.
-- Raises: PQ023 No such cron entry.
-- Writes: as find_cron; delete pgq.cron.
create or replace function pgq.remove_cron(i_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c constant pgq.cron := pgq.find_cron(i_name);
begin
    delete from pgq.cron where cron_name = c.cron_name;
    return 1;
end $$;
comment on function pgq.remove_cron is 'Removes a cron entry.';
