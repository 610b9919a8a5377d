-- Whether a process that claims events is dead, or its lease is over. The lock is kept until the
-- end of the transaction, so that the process, if it comes back, finds its claims returned.
create or replace function pgq.holder_is_gone(h pgq.holder)
returns boolean language sql as $$
    select case when h.holder_until < clock_timestamp() then true
                when h.holder_server is distinct from pg_postmaster_start_time() then false
                when h.holder_pid = pg_backend_pid() then false
                else pg_try_advisory_xact_lock(pgq.lock_number('holder'), h.holder_id) end
$$;
