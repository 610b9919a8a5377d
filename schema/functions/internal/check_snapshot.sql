-- Function: pgq.check_snapshot()
--
-- Refuses a REPEATABLE READ or SERIALIZABLE transaction whose snapshot is older than a compaction. TRUNCATE is not like
-- DELETE: such a snapshot finds the table empty, and what was copied back is too new for it. "Not subscriber", or a batch
-- that is said not to be open, would be wrong then.
--
-- A truncated table has a new file. A query of pg_class shows the file that the snapshot knows, pg_relation_filenode
-- the one there is. The lock comes first: from then on to the end of the transaction nobody compacts.
--
-- READ COMMITTED needs nothing of this, for a statement takes its snapshot after its locks. That holds in a function too,
-- but for a STABLE one, which uses its caller's snapshot: what reads ticks or positions is VOLATILE.
--
-- Raises: 40001, compacted since the snapshot; roll back and call again.
-- Writes: ACCESS SHARE lock pgq.position, pgq.tick_recent, in those isolation levels.
create or replace function pgq.check_snapshot()
returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') = 'read committed' then
        return;
    end if;
    lock table pgq.position, pgq.tick_recent in access share mode;
    if exists (select from pg_class
                where oid in ('pgq.position'::regclass, 'pgq.tick_recent'::regclass)
                  and relfilenode <> pg_relation_filenode(oid)) then
        raise exception 'ticks or positions were compacted after this transaction''s snapshot was taken'
            using errcode = '40001', hint = 'roll back and call again';
    end if;
end
$$;
comment on function pgq.check_snapshot() is 'Refuses a transaction whose snapshot is older than a compaction.';
