-- Whether a session holds the advisory lock of a consumer: a process that runs it does. The session
-- that asks may hold the lock. It is tried, and released at once: held until the end of the
-- transaction, it would keep out a process that begins.
create or replace function pgq.is_running(i_sub_id int)
returns boolean language sql as $$
    select case when pg_try_advisory_lock(pgq.lock_number('consumer'), i_sub_id)
               then not pg_advisory_unlock(pgq.lock_number('consumer'), i_sub_id) else true end
$$;
