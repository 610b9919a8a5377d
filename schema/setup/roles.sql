-- Creates the five roles of the engine that are missing.
-- Raises: PQ014, a role is missing and the installer may not create roles; the hint has the
--   statements for an administrator.
-- Writes: roles of the cluster, membership of pgq_admin in pgq_reader and pgq_writer.
do $roles$
declare
    wanted constant text[] := array[
        'pgq_reader', 'pgq_writer', 'pgq_admin', 'pgq_ticker', 'pgq_dashboard'];
    parent text;
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
                    'pgq_admin; then install again',
                    (select string_agg(format('create role %I', m), '; ') from unnest(missing) m));
        end if;
        foreach parent in array missing loop
            begin
                execute format('create role %I', parent);
            exception when duplicate_object or unique_violation then
                null;  -- an installation in another database of the cluster was faster
            end;
        end loop;
    end if;
    foreach parent in array array['pgq_reader', 'pgq_writer'] loop
        if not pg_has_role('pgq_admin', parent, 'member') then
            begin
                execute format('grant %I to pgq_admin', parent);
            exception
                when unique_violation then null;  -- as above
                when insufficient_privilege then
                    raise exception using errcode = 'PQ014',
                        message = format('role %s may not make pgq_admin a member of %s',
                            current_user, parent),
                        hint = format('an administrator runs: grant %I to pgq_admin; then install '
                            'again', parent);
            end;
        end if;
    end loop;
end $roles$;
