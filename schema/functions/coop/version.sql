-- The version of the contract of PGQ's pgq_coop that this schema keeps.
create or replace function pgq_coop.version()
returns text language sql
return '3.5';
comment on function pgq_coop.version is 'The version of the pgq_coop contract kept here.';
