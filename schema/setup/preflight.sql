-- Refuses, before anything is written, a database in which the engine can't be installed.
--
-- Raises PQ014: the server is older than PostgreSQL 14; the extension pgq is there; a schema pgq of somebody
-- else is there; what is installed is newer than this file.
-- Writes: nothing.
do $preflight$
declare
    shipped constant int := 11;  -- the highest number in tables/
    installed int;
begin
    if current_setting('server_version_num')::int < 140000 then
        raise exception using errcode = 'PQ014',
            message = format('PostgreSQL %s is too old: pgqpy needs 14 or later', current_setting('server_version'));
    end if;
    if exists (select from pg_catalog.pg_extension where extname = 'pgq') then
        raise exception using errcode = 'PQ014',
            message = 'the extension pgq is installed in this database',
            hint = 'pgqpy''s client works with it as it is; or "drop extension pgq cascade" (its queues are lost) and install again';
    end if;
    if to_regclass('pgq.installation') is null then
        if exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                   where n.nspname = 'pgq') then
            raise exception using errcode = 'PQ014',
                message = 'a schema pgq that is not pgqpy''s is in this database',
                hint = 'rename it or drop it, then install again';
        end if;
        return;
    end if;
    select version into installed from pgq.installation;
    if installed > shipped then
        raise exception using errcode = 'PQ014',
            message = format('the installed schema pgq is version %s, this pgqpy ships version %s', installed, shipped),
            hint = 'upgrade the pgqpy package on this machine';
    end if;
end
$preflight$;
