-- Extends the lease of a holder, and so of all its claims; from another session, the session lock
-- moves there.
-- Returns: how many processes hold claims of the consumer, this one included: the more there are,
--   the less often each has to look for what is due. Null: the lease had ended, and the claims were
--   returned: hold again.
-- Raises: PQ009 a bad lease; PQ013.
-- Writes: update pgq.holder; a session advisory lock.
create or replace function pgq.renew(i_holder int, i_lease interval default '30 seconds')
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    h pgq.holder;
begin
    perform pgq.check_claim(1, i_lease);
    update pgq.holder set holder_until = clock_timestamp() + i_lease
     where holder_id = i_holder returning * into h;
    if h.holder_server is not null and h.holder_pid <> pg_backend_pid()
            and pg_try_advisory_lock(pgq.lock_number('holder'), i_holder) then
        update pgq.holder
           set holder_pid = pg_backend_pid(), holder_server = pg_postmaster_start_time()
         where holder_id = i_holder;
    end if;
    return case when h.holder_id is not null then (
        select count(*) from pgq.holder where holder_sub = h.holder_sub) end;
end $$;
comment on function pgq.renew is 'Extends the lease of a holder.';
