-- Makes the session the holder of claims: one lease counts for all of them, and they end at once
-- when the session does. So a process keeps one session for this, and renews the lease in it.
-- Parameters: i_name: the process, as host:pid. i_lease: a second to a day. i_session: false behind
--   a pooler, which shares the session: then the claims end with the lease only.
-- Returns: the holder's number, for receive.
-- Raises: PQ002; PQ009 a bad lease; PQ013; PQ020 not shared, or as check_truncates; PQ024
--   detached.
-- Writes: insert pgq.holder; with i_session, a session advisory lock.
create or replace function pgq.hold(
    i_queue_name text, i_consumer_name text, i_name text, i_lease interval default '30 seconds',
    i_session boolean default true)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
    v_holder int;
begin
    perform pgq.check_claim(1, i_lease);
    perform pgq.check_truncates(s);
    insert into pgq.holder (holder_sub, holder_name, holder_until, holder_pid, holder_server)
    values (s.sub_id, i_name, clock_timestamp() + i_lease, pg_backend_pid(),
        case when i_session then pg_postmaster_start_time() end)
    returning holder_id into v_holder;
    if i_session then
        perform pg_advisory_lock(pgq.lock_number('holder'), v_holder);
    end if;
    return v_holder;
end $$;
comment on function pgq.hold is 'Makes the session the holder of claims.';
