-- Keeps plans from callers. With debug_print_plan and its like, which every session may set, the
-- server sends the plan of each statement as a LOG message, also of those inside a function, with
-- the values of the function's variables in it. So a function that handles events, and runs with
-- the owner's rights for a role that may not read them, switches them off.
--
-- Functions for readers only are left out, and so are those that insert what the caller gives: they
-- hold no other event, and each setting costs about 1 % of an insert.
--
-- Writes: alter function.
do $plans$
declare
    f regprocedure;
begin
    for f in
        select distinct p.oid
          from pg_proc p
         cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          left join pg_roles r on r.oid = a.grantee
         where p.pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
           and p.prosecdef and a.grantee <> p.proowner
           and coalesce(r.rolname, 'public') not in ('pgq_reader', 'pgq_admin')
           and p.proname !~ '^insert_events?(_|$)' and p.proname <> 'current_event_table'
           and age(p.xmin) <= age(pg_current_xact_id()::xid)  -- the engine's own: see grants.sql
    loop
        execute format('alter function %s set debug_print_parse = off '
            'set debug_print_rewritten = off set debug_print_plan = off', f);
    end loop;
end $plans$;
