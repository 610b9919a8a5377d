-- Whether maintenance may call a function. It runs with the rights of the role that runs
-- maintenance, so it must belong to the schema's owner or a superuser, and so must its schema:
-- whose owner may drop it and create another of its name between this check and the call. Functions
-- of the server or of an extension are refused: they were not written to be called with a name that
-- any administrator of queues may choose, such as dblink_exec(text).
create or replace function pgq.is_extra_maint(i_name text) returns boolean language sql stable as $$
    select exists (
        select from pg_proc p
          join pg_namespace n on n.oid = p.pronamespace
          join pg_namespace ours on ours.nspname = 'pgq'
          join pg_database d on d.datname = current_database()
         where p.oid = to_regprocedure(pgq.quote_fqname(i_name) || '(text)') and p.prokind = 'f'
           and not exists (
            select from pg_roles r
             where not r.rolsuper and r.oid <> ours.nspowner
               and r.oid in (p.proowner, case n.nspowner
                        when 'pg_database_owner'::regrole then d.datdba else n.nspowner end))
           and p.oid >= 16384  -- the first one that is not the server's
           and not exists (
            select from pg_depend
             where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e'))
$$;
