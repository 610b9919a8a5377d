-- Function: pgq.is_extra_maint(i_name text)
--
-- Whether maintenance may call a function: one that takes the queue's name, and that the schema's
-- owner or a superuser wrote. It runs with the rights of the role that runs maintenance, so its owner
-- has these rights too. What belongs to the server or to an extension was not written to be called with a
-- name that any administrator of queues may choose: dblink_exec(text), say.
--
-- Writes: nothing.
create or replace function pgq.is_extra_maint(i_name text)
returns boolean language sql stable as $$
    select exists (
        select from pg_proc p
          join pg_roles r on r.oid = p.proowner
         where p.oid = to_regprocedure(pgq.quote_fqname(i_name) || '(text)') and p.prokind = 'f'
           and (r.rolsuper or r.oid = (select nspowner from pg_namespace where nspname = 'pgq'))
           and p.oid >= 16384  -- the first one that is not the server's
           and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e'))
$$;
comment on function pgq.is_extra_maint(text) is 'Whether maintenance may call a function.';
