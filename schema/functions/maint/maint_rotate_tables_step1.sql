-- Rotates a queue if its rotation period has passed: truncates the next table and makes it the
-- current one. If the last rotation lies in the future, the clock was stepped back: it rotates too.
--
-- PGQ truncates when the slowest consumer is past the xid of the last switch, and searches a batch
-- only in the tables that this xid allows. A producer may learn the table before the switch and get
-- its xid, or its snapshot, after it: then both are wrong, and a committed event is never
-- delivered. Here the events decide. The table is locked against writers, and truncated only if the
-- tick at the slowest consumer's position sees every event in it (G1). Without consumers, the
-- queue's last tick counts. A retention counts as one more consumer: see retained_tick.
--
-- A consumer may be moved back to any tick from queue_low_tick on. queue_low_tick becomes the
-- queue's last tick at the previous rotation, so that one period of ticks remains; or the slowest
-- consumer's position, if that is smaller, or the other does not see all truncated events.
--
-- All readers queue up behind the lock, so it waits for 50 ms only. But each transactional consumer
-- holds a lock on the table until it commits, and several that are busy never leave the table alone
-- for so long. So a rotation that is late by a whole period waits for 900 ms. If a consumer has not
-- read the table yet, nothing is locked, nor during a pg_dump: see dump_is_running. The queue's row
-- is locked last: ticks need it. A pg_dump that has no locks yet fails, if the table has rows: see
-- lock_truncation_mark.
-- Returns: 0.
-- Raises: PQ001; PQ012 and PQ015 queue maint failure; PQ012 as check_moved; PQ013 not READ
--   COMMITTED: the read after the lock needs a new snapshot.
-- Writes: ACCESS EXCLUSIVE lock and truncate of one event table; row lock and update pgq.queue; as
--   lock_truncation_mark, count_truncation.
create or replace function pgq.maint_rotate_tables_step1(i_queue_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '50ms' as $$
declare
    q pgq.queue;
    v_before int;
    v_retention interval;
    v_slowest bigint;
    v_retained bigint;
    v_low bigint;
    v_next int;
    v_table text;
    v_has_rows boolean;
begin
    perform pgq.check_isolation('a rotation');
    q := pgq.find_queue(i_queue_name);
    if q.queue_switch_step2 is null or not pgq.is_rotation_due(q) then
        return 0;
    elsif txid_snapshot_xmax(txid_current_snapshot()) <= q.queue_switch_step1 then
        -- not by this transaction's id: it may be older than a rotation that it sees
        raise exception 'queue % maint failure: step1=%, current=%', i_queue_name,
            q.queue_switch_step1, txid_current() using errcode = 'PQ012',
            hint = format('select pgq.repair_queue(%L)', i_queue_name);
    end if;
    begin
        -- after the cheap checks, as it may read the events
        perform pgq.check_moved(q);
        v_retained := pgq.retained_tick(q);  -- before the locks: it may read many ticks
        v_retention := q.queue_retention;
        v_slowest := least(pgq.slowest_tick(q.queue_id), v_retained);
        if not exists (
                select from pgq.tick where tick_queue = q.queue_id and tick_id = v_slowest) then
            raise exception 'queue % maint failure: tick % not found', i_queue_name, v_slowest
                using errcode = 'PQ015';
        end if;
        v_before := q.queue_cur_table;
        v_next := (v_before + 1) % q.queue_ntables;
        v_table := pgq.event_table(q.queue_id, v_next);
        if not pgq.tick_sees_table(q.queue_id, v_slowest, v_next) or pgq.dump_is_running() then
            return 0;
        end if;
    exception when lock_not_available then  -- another session rotates or repairs it
        return 0;
    end;
    begin
        if q.queue_switch_time + 2 * q.queue_rotates_after < now() then
            set local lock_timeout = '900ms';  -- less than deadlock_timeout
        end if;
        perform pgq.copy_inflight(q.queue_id, v_next);
        execute format('lock table pgq.%I in access exclusive mode', v_table);
        set local lock_timeout = '50ms';
        v_has_rows := pg_relation_size(('pgq.' || v_table)::regclass) > 0;
        if v_has_rows then
            perform pgq.lock_truncation_mark();
        end if;
        select * into q from pgq.queue where queue_id = q.queue_id for update;
        v_slowest := least(pgq.slowest_tick(q.queue_id), v_retained);
        if q.queue_cur_table is distinct from v_before or q.queue_switch_step2 is null
                or q.queue_retention is distinct from v_retention
                or not pgq.tick_sees_table(q.queue_id, v_slowest, v_next) then
            raise sqlstate '55P03';  -- so that no copies stay of what is not truncated
        end if;
    -- deadlock_detected: two rotations at once have both read the table, and wait for each other.
    -- PostgreSQL reports that at once, without deadlock_timeout.
    exception when lock_not_available or deadlock_detected or undefined_table then
        return 0;
    end;
    v_low := least(q.queue_switch_tick, v_slowest);
    if not pgq.tick_sees_table(q.queue_id, v_low, v_next) then
        v_low := v_slowest;
    end if;
    if v_has_rows then
        perform pgq.count_truncation();
    end if;
    perform pgq.copy_inflight(q.queue_id, v_next);
    execute format('truncate pgq.%I', v_table);
    update pgq.queue
       set queue_cur_table = v_next, queue_switch_time = now(),
           queue_switch_step1 = txid_current(), queue_switch_step2 = null,
           queue_switch_tick = (select max(tick_id) from pgq.tick where tick_queue = q.queue_id),
           queue_low_tick = greatest(queue_low_tick, v_low)
     where queue_id = q.queue_id;
    return 0;
end $$;
comment on function pgq.maint_rotate_tables_step1 is 'Rotates a queue if it is due.';
