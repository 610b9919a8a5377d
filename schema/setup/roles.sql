-- Creates the six roles of the engine that are missing.
-- Raises: PQ014, a role is missing and the installer may not create roles; the hint has the
--   statements for an administrator.
-- Writes: roles of the cluster; membership of pgq_admin in pgq_reader and pgq_writer, and
--   of the installer in pgq_capture, which owns capture_row and capture_rows.
do $roles$
declare
    wanted constant text[] := array[
        'pgq_reader', 'pgq_writer', 'pgq_admin', 'pgq_ticker', 'pgq_dashboard', 'pgq_capture'];
    parent text;
    heir text;
    missing text[];
begin
    select array_agg(r order by r) into missing
      from unnest(wanted) r where not exists (select from pg_catalog.pg_roles where rolname = r);
    if missing is not null then
        if not (select rolcreaterole or rolsuper from pg_catalog.pg_roles
                 where rolname = current_user) then
            raise exception using errcode = 'PQ014',
                message = format('role %s may not create the role(s) %s',
                    current_user, array_to_string(missing, ', ')),
                hint = format('an administrator runs: %s; grant pgq_reader, pgq_writer to '
                    'pgq_admin; grant pgq_capture to %I; then install again',
                    (select string_agg(format('create role %I', m), '; ') from unnest(missing) m),
                    current_user);
        end if;
        foreach parent in array missing loop
            begin
                execute format('create role %I', parent);
            exception when duplicate_object or unique_violation then
                null;  -- an installation in another database of the cluster was faster
            end;
        end loop;
    end if;
    for parent, heir in values ('pgq_reader', 'pgq_admin'), ('pgq_writer', 'pgq_admin'),
            ('pgq_capture', current_user::text) loop
        -- since PostgreSQL 16, who has made a role is a member, but may not act as it
        if not pg_has_role(heir, parent, case
                when current_setting('server_version_num')::int >= 160000 then 'set'
                else 'member' end) then
            begin
                execute format('grant %I to %I', parent, heir);
            exception
                when unique_violation then null;  -- as above
                when insufficient_privilege then
                    raise exception using errcode = 'PQ014',
                        message = format('role %s may not make %s a member of %s',
                            current_user, heir, parent),
                        hint = format('an administrator runs: grant %I to %I; then install again',
                            parent, heir);
            end;
        end if;
    end loop;
end $roles$;
