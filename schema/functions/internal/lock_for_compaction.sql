-- Function: pgq.lock_for_compaction(i_table regclass)
--
-- Locks a table that is about to be truncated and filled again, against everybody, and marks the compaction.
--
-- pg_dump takes its snapshot first and locks the tables it found one by one. If a compaction came in between, the dump
-- would hold no position, and nobody would know. So a table changes its name with each compaction: pg_dump locks
-- tables by the names it found, and fails.
--
-- Behind a waiting lock everybody else queues up: the caller sets a short lock_timeout, and gives up until the next time.
--
-- Raises: 55P03 somebody has the table; 42P01 another compaction was faster; PQ013 not READ COMMITTED (the look after
--   the lock has to be fresh).
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
    execute format('lock table only pgq.%I in access exclusive mode', (select relname from pg_class where oid = i_table));
    execute format('alter table pgq.%I rename to %I', v_mark, 'compaction_' || substr(v_mark, 12)::bigint + 1);
end
$$;
comment on function pgq.lock_for_compaction(regclass) is 'Locks a table that is about to be truncated and filled again.';
