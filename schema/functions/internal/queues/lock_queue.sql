-- Locks a queue against all other sessions until the transaction ends: its row, subscriptions,
-- tables and sequences, and what its shared consumers have in flight.
--
-- No order of these locks is safe: a producer that has inserted into one table may insert into
-- another after a rotation, or read a batch, tick, or finish a batch. A session that holds some of
-- the locks and waits for the others deadlocks with it. So all locks are taken at once or none.
-- Where one is not free soon, all are released, that one is waited for alone, and then all are
-- tried again. All the waits together take less than deadlock_timeout (1 second), so that no
-- session that waits for this one is taken for a deadlock.
--
-- While it waits for a sequence, it keeps the queue's advisory lock. Reading a sequence
-- locks it (ROW EXCLUSIVE), so a ticker would wait behind this session's request, and with it the
-- ticks of all other queues. No ticker waits for the other lock: see ticker_activity.
-- Parameters: i_mark: pgq.truncation_N is locked, too: see lock_truncation_mark.
-- Returns: the queue.
-- Raises: PQ001; 55P03 by the caller's lock_timeout.
-- Writes: advisory locks of create_queue, of the queue and of refills; row locks pgq.queue,
--   pgq.registration, pgq.inflight, pgq.consumer; ACCESS EXCLUSIVE lock on the event tables, and on
--   pgq.truncation_N; SHARE ROW EXCLUSIVE lock on the sequences.
create or replace function pgq.lock_queue(i_queue_name text, i_mark boolean default false)
returns pgq.queue language plpgsql as $$
declare
    c_soon constant text := '10ms';
    c_whole constant text :=  -- no table is added
        'select pg_advisory_xact_lock(pgq.lock_number(''engine''), pgq.lock_number(''changing''))';
    v_timeout constant text := current_setting('lock_timeout');
    v_lock text := c_whole;  -- the lock to wait for, then each lock to try
    v_waits boolean;
begin
    loop
        begin
            v_waits := true;
            execute v_lock;
            v_waits := false;
            perform set_config('lock_timeout', c_soon, true);
            v_lock := c_whole;
            execute v_lock;
            for v_lock in
                select unnest(array[
                    format(
                        'select pg_advisory_xact_lock(pgq.lock_number(''queue''), %L)', queue_id),
                    format('select from pgq.queue where queue_id = %L for update', queue_id),
                    format('select from pgq.registration where sub_queue = %L for update',
                        queue_id),
                    format('select pg_advisory_xact_lock(pgq.lock_number(''refill''), sub_id) '
                        'from pgq.registration where sub_queue = %L', queue_id),
                    format('select from pgq.inflight where run_sub in (select sub_id '
                        'from pgq.registration where sub_queue = %L) for update', queue_id),
                    format('select from pgq.consumer where co_id in (select sub_consumer '
                        'from pgq.registration where sub_queue = %L) for update', queue_id)]
                    || array(
                        select format(case relkind when 'S'
                                then 'select pg_advisory_xact_lock(pgq.lock_number(''queue''), '
                                    '%2$L); alter sequence pgq.%1$I owned by none'
                                else 'lock table only pgq.%I in access exclusive mode' end,
                            relname, queue_id)
                          from pg_class
                         where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'S')
                           and (relname ~ concat(
                                    '^event_', queue_id, '(_[0-9]+|_id_seq|_tick_seq)?$')
                                or i_mark and relname ~ '^truncation_[0-9]+$')
                         order by relkind = 'S', oid))
                  from pgq.queue where queue_name = i_queue_name
            loop
                execute v_lock;
            end loop;
            perform set_config('lock_timeout', v_timeout, true);
            return pgq.find_queue(i_queue_name);
        exception
            when lock_not_available then
                if v_waits then
                    raise;
                end if;
            when undefined_table then
                if not v_waits and not i_mark then
                    raise;
                end if;
                v_lock := c_whole;  -- another session dropped or renamed it meanwhile
        end;
    end loop;
end $$;
