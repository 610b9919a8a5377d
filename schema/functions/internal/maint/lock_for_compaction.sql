-- Locks a table against all sessions, before it is truncated and filled again, and renames
-- pgq.compaction_N.
--
-- pg_dump takes its snapshot first, and then locks the tables that it found, one by one. After a
-- compaction in between, the dump would hold no positions, without an error. pg_dump locks tables
-- by the names that it found, so the renamed table makes it fail.
--
-- All other sessions queue up behind a waiting lock. So the caller sets a short lock_timeout, and
-- gives up until the next time.
--
-- Raises: 55P03 another session uses the table; 42P01 another compaction was faster; PQ013 not READ
--   COMMITTED: the look after the lock needs a new snapshot.
-- Writes: ACCESS EXCLUSIVE lock of the table; alter table pgq.compaction_N.
create or replace function pgq.lock_for_compaction(i_table regclass)
returns void language plpgsql as $$
declare
    v_mark text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.raise_wrong_isolation('a compaction');
    end if;
    select relname into v_mark from pg_class
     where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^compaction_[0-9]+$';
    execute format('lock table pgq.%I in access exclusive mode', v_mark);
    execute format('lock table only pgq.%I in access exclusive mode',
        (select relname from pg_class where oid = i_table));
    execute format('alter table pgq.%I rename to %I',
        v_mark, 'compaction_' || substr(v_mark, 12)::bigint + 1);
end $$;
