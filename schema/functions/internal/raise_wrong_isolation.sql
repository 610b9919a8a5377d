-- Function: pgq.raise_wrong_isolation(i_what text)
--
-- Says that a call needs READ COMMITTED. It takes a lock and then has to see what the holder before
-- committed; in the higher levels the snapshot is older than the lock, and nothing shows what came
-- in between: a tick could see less than the one before it, a rotation truncate what it never saw.
--
-- A program that knows nothing of this, as PGQ's pgqd, gets the level from its session's default.
-- Then the hint is what an administrator runs.
--
-- Parameters: i_what: the subject of the message.
-- Raises: PQ013, always.
-- Writes: nothing.
create or replace function pgq.raise_wrong_isolation(i_what text)
returns void language plpgsql as $$
begin
    raise exception using errcode = 'PQ013',
        message = format('%s needs READ COMMITTED, this transaction is %s',
            i_what, upper(current_setting('transaction_isolation'))),
        hint = case when current_setting('default_transaction_isolation') = 'read committed'
            then 'call it in a transaction of its own: begin isolation level read committed'
            else format('alter role %I in database %I set default_transaction_isolation = %L; then connect again',
                session_user, current_database(), 'read committed') end;
end
$$;
comment on function pgq.raise_wrong_isolation(text) is 'Says that a call needs READ COMMITTED.';
