-- Keeps rotation away from a queue's events until the transaction ends. A reader of a range that no
-- subscription keeps may be overtaken by rotation, and a truncated table looks empty to every
-- snapshot. So the lock comes first, then find_range reads queue_low_tick, then the events are
-- read. Rotation does not wait for the lock; it tries again later.
--
-- Outside READ COMMITTED the queries after the lock see the snapshot's state, so this function
-- looks for a table that was truncated since, as check_snapshot does. A missing queue is left to
-- the caller.
-- Raises: 40001 rotated since the snapshot; roll back and call again. 42P01 the queue was dropped
--   meanwhile.
-- Writes: ACCESS SHARE lock on the event tables.
create or replace function pgq.lock_event_tables(i_queue_name text)
returns void language plpgsql as $$
declare
    v_table text := (
        select pgq.event_table(queue_id) from pgq.queue where queue_name = i_queue_name);
begin
    if v_table is null then
        return;
    end if;
    execute format('lock table pgq.%I in access share mode', v_table);
    if current_setting('transaction_isolation') <> 'read committed' and exists (
            select from pg_inherits join pg_class on oid = inhrelid
             where inhparent = format('pgq.%I', v_table)::regclass
               and relfilenode <> pg_relation_filenode(oid)) then
        raise exception 'queue % was rotated after this transaction''s snapshot was taken',
            i_queue_name using errcode = '40001', hint = 'roll back and call again';
    end if;
end $$;
