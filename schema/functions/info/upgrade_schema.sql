-- Function: pgq.upgrade_schema()
--
-- PGQ's way to upgrade; here the installer does all of it.
--
-- Returns: 0, nothing to do.
-- Writes: nothing.
create or replace function pgq.upgrade_schema()
returns int language sql
return 0;
comment on function pgq.upgrade_schema() is 'Nothing to do: the installer upgrades.';
