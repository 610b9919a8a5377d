-- Locks a table against all sessions, before it is truncated and filled again. Gives up while a
-- dump runs. A dump that has no locks yet fails: see lock_truncation_mark.
--
-- All other sessions queue up behind a waiting lock. So the caller sets a short lock_timeout, and
-- gives up until the next time.
-- Raises: 55P03 another session uses the table, or dumps it; PQ013 not READ COMMITTED: the read
--   after the lock needs a new snapshot.
-- Writes: ACCESS EXCLUSIVE lock of the table; as lock_truncation_mark, count_truncation.
create or replace function pgq.lock_for_compaction(i_table regclass)
returns void language plpgsql as $$
begin
    perform pgq.check_isolation('a compaction');
    if pgq.dump_is_running() then
        raise exception 'a dump is running' using errcode = '55P03';
    end if;
    perform pgq.lock_truncation_mark();
    execute format('lock table only pgq.%I in access exclusive mode',
        (select relname from pg_class where oid = i_table));
    perform pgq.count_truncation();
end $$;
