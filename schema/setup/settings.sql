-- The planner's settings, and those that print plans, of the functions that roles may call. A
-- setting holds for all that a function calls, so internal functions need none of their own. A plan
-- that one function makes is kept for the session: so all have the same settings.
--
-- Tables of positions, ticks and events are never analysed, or grow after they were. So the planner
-- has no use of their size. With sequential scans, bitmap scans and sorts, a plan made with few
-- rows is kept when there are a million, or walks over the dead rows that a transaction with an old
-- xmin keeps (G6). What is ruled out makes a plan look expensive, before PostgreSQL 18: then JIT
-- compiles it, and workers are started for it, which takes a hundred times as long as the call.
--
-- With debug_print_plan and its like, which every session may set, the server logs the values of a
-- function's variables, also to the client. So functions for roles that may not read events switch
-- them off.
--
-- Every function with its owner's rights gets row_security = off: where a policy would hide rows
-- from the owner, it fails, and does not work on what is left.
--
-- Each setting costs an insert about 1 %. So functions that insert what the caller gives have none.
-- The planner is left alone too in those that only call others, poll sequences or read all rows,
-- and in those with settings of their own that rule other plans out.
-- Writes: alter function.
do $settings$
declare
    f record;
begin
    for f in
        select oid::regprocedure as name from pg_proc
         where pronamespace in ('pgq'::regnamespace, 'pgq_coop'::regnamespace)
           and (prosecdef or proname = 'get_batch_cursor')
           and proname !~ '^(insert_events?(_raw)?|current_event_table|capture(_rows?)?)$'
           and age(xmin) <= age(pg_current_xact_id()::xid)  -- the engine's own: see grants.sql
    loop
        execute format('alter function %s set row_security = off', f.name);
    end loop;
    for f in
        select p.oid::regprocedure as name, bool_or(
                   coalesce(r.rolname, 'public') not in ('pgq_reader', 'pgq_admin')) as hides,
               bool_or(s ~ '^enable_') is not true and p.proname not in (
                    'next_batch', 'next_batch_info', 'ticker_activity', 'ticker_pulse',
                    'repair_queue', 'schema_version') as plans
          from pg_proc p
         cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          left join pg_roles r on r.oid = a.grantee
          left join unnest(p.proconfig) s on true
         where p.pronamespace = 'pgq'::regnamespace
           and (p.prosecdef or p.proname = 'get_batch_cursor') and a.grantee <> p.proowner
           and p.proname !~ '^(insert_events?(_at|_once)?|current_event_table|capture(_rows?)?)$'
           and age(p.xmin) <= age(pg_current_xact_id()::xid)
         group by p.oid
    loop
        if f.plans then
            execute format('alter function %s set enable_seqscan = off '
                'set enable_bitmapscan = off set enable_sort = off set jit = off '
                'set max_parallel_workers_per_gather = 0', f.name);
        end if;
        if f.hides then
            execute format('alter function %s set debug_print_parse = off '
                'set debug_print_rewritten = off set debug_print_plan = off', f.name);
        end if;
    end loop;
end $settings$;
