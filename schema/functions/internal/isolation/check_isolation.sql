-- Refuses a call outside READ COMMITTED. The call takes a lock, and then must see what the previous
-- holder committed. In the higher levels the snapshot is older than the lock. So a tick could see
-- less than the tick before it, a rotation truncate events that it never saw, or a consumer open a
-- batch at a position that another session has left. Reading, finishing and inserting are allowed
-- in every level: see check_snapshot, lock_batch.
--
-- A program that sets no level, such as PGQ's pgqd, gets it from its session's default. Then the
-- hint is a statement for an administrator.
-- Parameters: i_what: the subject of the message.
-- Raises: PQ013 not READ COMMITTED.
create or replace function pgq.check_isolation(i_what text)
returns void language plpgsql as $$
begin
    if current_setting('transaction_isolation') = 'read committed' then
        return;
    end if;
    raise exception using errcode = 'PQ013',
        message = format('%s needs READ COMMITTED, this transaction is %s',
            i_what, upper(current_setting('transaction_isolation'))),
        hint = case when current_setting('default_transaction_isolation') = 'read committed'
            then 'call it in a transaction of its own: begin isolation level read committed'
            else format('alter role %I in database %I set default_transaction_isolation = %L; '
                'then connect again',
                session_user, current_database(), 'read committed') end;
end $$;
