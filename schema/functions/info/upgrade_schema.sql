-- PGQ's function for upgrades. It does nothing here, because the installer upgrades.
-- Returns: 0, nothing to do.
create or replace function pgq.upgrade_schema()
returns int language sql
return 0;
comment on function pgq.upgrade_schema is 'Nothing to do: the installer upgrades.';
