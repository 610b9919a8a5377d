-- Refuses a database in which the engine cannot be installed, before anything else is written, and
-- creates the schemas pgq and pgq_coop.
--
-- The owner of a schema, and every role that may create objects in it, can put a function where the
-- engine's is expected, which the installer would call. So one of three must hold: the schema is
-- created here; it is the installer's own and empty; it is an installed engine and every object in
-- it is the installer's own. No object in it is read before that is known.
-- Raises: PQ014: the server is older than PostgreSQL 14; the encoding of the database, or of the
--   name of a role, is not UTF-8: clients read all texts as UTF-8; the extension pgq is installed;
--   a schema of that name belongs to another role, or holds objects of another role; the installed
--   version is newer than this file.
-- Writes: create schema, where one is missing.
do $preflight$
declare
    shipped constant int := 1;  -- the last number in steps/, as test_rules.py checks
    installed int;
    space text;
    ours boolean := false;
    me constant oid := (select oid from pg_catalog.pg_roles where rolname = current_user);
    s record;
    others text;
begin
    if current_setting('server_version_num')::int < 140000 then
        raise exception using errcode = 'PQ014',
            message = format('PostgreSQL %s is too old: pgqpy needs 14 or later',
                current_setting('server_version'));
    end if;
    if getdatabaseencoding() <> 'UTF8' then
        raise exception using errcode = 'PQ014',
            message = format('the encoding of this database is %s: pgqpy needs UTF8',
                getdatabaseencoding()),
            hint = 'create a database with encoding UTF8 and template template0 for the queues';
    end if;
    for s in select oid, rolname from pg_catalog.pg_roles loop
        begin
            perform convert_to(s.rolname, 'SQL_ASCII');  -- reads the name in the encoding
        exception when character_not_in_repertoire then
            raise exception using errcode = 'PQ014',
                message = format('the name of the role with oid %s is not UTF-8', s.oid),
                hint = 'rename it, in a database of the encoding in which it was created';
        end;
    end loop;
    if exists (select from pg_catalog.pg_extension where extname = 'pgq') then
        raise exception using errcode = 'PQ014',
            message = 'the extension pgq is installed in this database',
            hint = 'pgqpy''s client works with it as it is; or "drop extension pgq cascade" (its '
                'queues are lost) and install again';
    end if;

    foreach space in array array['pgq', 'pgq_coop'] loop
        select n.oid, n.nspowner, pg_get_userbyid(n.nspowner) as owner, n.nspacl,
               c.oid is not null as engine into s
          from pg_catalog.pg_namespace n
          left join pg_catalog.pg_class c
            on c.relnamespace = n.oid and c.relname = 'installation' and c.relkind = 'r'
         where n.nspname = space;
        if not found then
            begin
                -- never "if not exists": it would accept a schema that another role creates now
                execute format('create schema %I', space);
            exception when duplicate_schema or unique_violation then
                raise exception using errcode = 'PQ014',
                    message = format('another session has just made a schema %s', space),
                    hint = 'install again';
            end;
            continue;
        elsif space = 'pgq' then
            ours := s.engine;  -- for pgq_coop too, which has no table to tell by
        end if;
        if s.nspowner <> me then
            raise exception using errcode = 'PQ014',
                message = format('the schema %s belongs to role %s, and you are %s', space, s.owner,
                    current_user),
                hint = format('if %s installed pgqpy, use that role (PGOPTIONS="-c role=%s"); else '
                    'rename or drop the schema, then install again', s.owner, s.owner);
        elsif not ours then
            select string_agg(distinct pg_describe_object(classid, objid, 0), ', ') into others
              from pg_catalog.pg_depend
             where refclassid = 'pg_namespace'::regclass and refobjid = s.oid;
            if others is not null then
                raise exception using errcode = 'PQ014',
                    message = format(
                        'a schema %s that is not pgqpy''s is in this database, with %s',
                        space, left(others, 300)),
                    hint = 'rename it or drop it, then install again';
            end if;
            select string_agg(distinct case grantee when 0 then 'public'
                                  else quote_ident(pg_get_userbyid(grantee)) end, ', ') into others
              from aclexplode(s.nspacl) where privilege_type = 'CREATE' and grantee <> me;
            if others is not null then
                raise exception using errcode = 'PQ014',
                    message = format('%s may create objects in the schema %s', others, space),
                    hint = format('revoke create on schema %s from %s; then install again',
                        space, others);
            end if;
            continue;
        end if;

        -- A trigger's function counts too: it runs with the rights of the role that writes, which
        -- in a SECURITY DEFINER function is the owner.
        select string_agg(pg_describe_object(held.classid, held.objid, 0), ', ' order by held.*)
          into others
          from (
                select classid, objid from pg_catalog.pg_depend
                 where refclassid = 'pg_namespace'::regclass and refobjid = s.oid
                union select 'pg_proc'::regclass, t.tgfoid from pg_catalog.pg_trigger t
                  join pg_catalog.pg_class c on c.oid = t.tgrelid
                 where c.relnamespace = s.oid) held
          join pg_catalog.pg_shdepend o on o.classid = held.classid and o.objid = held.objid
           and o.deptype = 'o' and o.refobjid <> me
           and o.dbid = (select oid from pg_catalog.pg_database where datname = current_database())
         where o.refobjid not in (select oid from pg_catalog.pg_roles where rolsuper)
           and not (o.refobjid = any (array(
                    select oid from pg_catalog.pg_roles where rolname = 'pgq_capture'))
                and held.objid = any (array[to_regprocedure('pgq.capture_row(record)'),
                    to_regprocedure('pgq.capture_rows(anyarray, text[])')]::oid[]));
        if others is not null then
            raise exception using errcode = 'PQ014',
                message = format('the schema %s holds what is not %s''s own: %s',
                    space, current_user, left(others, 300)),
                hint = format('drop it, or make %I its owner if you know what it is; then go on',
                    current_user);
        end if;
    end loop;
    if not ours then
        return;
    end if;
    select version into installed from pgq.installation;
    if installed > shipped then
        raise exception using errcode = 'PQ014',
            message = format('the installed schema pgq is version %s, this pgqpy ships version %s',
                installed, shipped),
            hint = 'upgrade the pgqpy package on this machine';
    end if;
end $preflight$;
