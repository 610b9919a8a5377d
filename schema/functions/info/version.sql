-- The version of the PGQ contract that this engine keeps. PGQ's own clients check it.
create or replace function pgq.version()
returns text language sql
return '3.5';
comment on function pgq.version is 'The version of the PGQ contract kept here.';
