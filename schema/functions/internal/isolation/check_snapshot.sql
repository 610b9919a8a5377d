-- Refuses a REPEATABLE READ or SERIALIZABLE transaction whose snapshot is older than a compaction.
-- TRUNCATE differs from DELETE: such a snapshot finds the table empty, and the rows that were
-- inserted again are too new for it. A caller would report "Not subscriber", or that a batch is not
-- open, and be wrong.
--
-- A truncated table has a new file. A query of pg_class shows the file as of the snapshot,
-- pg_relation_filenode the present one. The lock comes first, so that no compaction follows.
--
-- READ COMMITTED needs no check, because a statement takes its snapshot after its locks. That holds
-- in functions too, but not in a STABLE one. So functions that read ticks or positions are
-- VOLATILE. Callers that run often test the level before they call: that saves a call.
-- Raises: 40001, compacted since the snapshot; roll back and call again.
-- Writes: ACCESS SHARE lock pgq.position, pgq.tick_recent, in those isolation levels.
create or replace function pgq.check_snapshot() returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') = 'read committed' then
        return;
    end if;
    lock table pgq.position, pgq.tick_recent in access share mode;
    if exists (select from pg_class
                where oid in ('pgq.position'::regclass, 'pgq.tick_recent'::regclass)
                  and relfilenode <> pg_relation_filenode(oid)) then
        raise exception 'ticks or positions were compacted after this transaction''s snapshot was '
            'taken' using errcode = '40001', hint = 'roll back and call again';
    end if;
end $$;
