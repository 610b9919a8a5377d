-- Says whether another session holds pgq.truncation_N in ACCESS SHARE, as pg_dump does until it
-- ends. A rotation or compaction would only time out. And while it waits, pg_dump -j fails: its
-- workers lock with NOWAIT, and a lock that another session waits for is refused to them.
create or replace function pgq.dump_is_running()
returns boolean language sql as $$
    select exists (
        select from pg_locks l join pg_class c on c.oid = l.relation
         where c.relnamespace = 'pgq'::regnamespace and c.relname ~ '^truncation_[0-9]+$'
           and l.mode = 'AccessShareLock' and l.pid is distinct from pg_backend_pid()
           and l.database = (select oid from pg_database where datname = current_database()))
$$;
