-- Refuses a database in which the engine cannot be installed, before anything else is written, and
-- creates the schemas pgq and pgq_coop.
--
-- The owner of a schema, and every role that may create objects in it, can put a function where the
-- engine's is expected. The installer calls functions of the schema, with its own rights. So one of
-- three must hold: the schema is created here; it is the installer's own and empty; it is an
-- installed engine and every object in it is the installer's own. No object in it is read before
-- that is known.
--
-- Raises: PQ014: the server is older than PostgreSQL 14; the extension pgq is installed; a
--   schema of that name belongs to another role, or holds objects of another role; the installed
--   version is newer than this file.
-- Writes: create schema, where one is missing.
do $preflight$
declare
    shipped constant int := 1;  -- the highest number in steps/; 1 without steps
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
        select string_agg(pg_describe_object(kind, object, 0), ', ' order by kind, object)
          into others
          from (
                select tableoid, oid, relowner, relnamespace from pg_catalog.pg_class
                union all select tableoid, oid, proowner, pronamespace from pg_catalog.pg_proc
                union all select tableoid, oid, typowner, typnamespace from pg_catalog.pg_type
                 where typrelid = 0
                union all select tableoid, oid, oprowner, oprnamespace from pg_catalog.pg_operator
                union all select tableoid, oid, opcowner, opcnamespace from pg_catalog.pg_opclass
                union all select tableoid, oid, opfowner, opfnamespace from pg_catalog.pg_opfamily
                union all select tableoid, oid, collowner, collnamespace
                  from pg_catalog.pg_collation
                union all select tableoid, oid, conowner, connamespace from pg_catalog.pg_conversion
                union all select tableoid, oid, dictowner, dictnamespace from pg_catalog.pg_ts_dict
                union all select tableoid, oid, cfgowner, cfgnamespace from pg_catalog.pg_ts_config
                union all select tableoid, oid, stxowner, stxnamespace
                  from pg_catalog.pg_statistic_ext
                union all select tableoid, oid, extowner, extnamespace from pg_catalog.pg_extension
                union all select t.tableoid, t.oid, p.proowner, c.relnamespace
                  from pg_catalog.pg_trigger t
                  join pg_catalog.pg_class c on c.oid = t.tgrelid
                  join pg_catalog.pg_proc p on p.oid = t.tgfoid
                 where p.proowner not in (select oid from pg_catalog.pg_roles where rolsuper)
               ) held (kind, object, owner, schema)
         where schema = s.oid and owner <> me;
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
