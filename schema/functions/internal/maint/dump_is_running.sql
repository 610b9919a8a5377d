-- Says whether another session has pgq.truncation_N locked as pg_dump does, from its begin to its
-- end. A rotation or a compaction would wait for it in vain. And while it waits, pg_dump -j fails:
-- its workers ask for locks that they get at once, or not at all.
-- Writes: nothing.
create or replace function pgq.dump_is_running()
returns boolean language sql as $$
    select exists (
        select from pg_locks l join pg_class c on c.oid = l.relation
         where c.relnamespace = 'pgq'::regnamespace and c.relname ~ '^truncation_[0-9]+$'
           and l.mode = 'AccessShareLock' and l.pid is distinct from pg_backend_pid()
           and l.database = (select oid from pg_database where datname = current_database()))
$$;
