-- Detaches stalled consumers: those that keep a rotation from truncating a table, for longer or in
-- more bytes than their policy allows. See set_stall_policy.
--
-- The time counts only while the queue is ticked (ticked_time), and a rotation period of it must
-- have passed in any case: after a weekend without a ticker, consumers have time to catch up.
--
-- A consumer is detached only if that frees the table. So all that exceed their limits are left out
-- of the count, and what the others have seen decides, with the queue's retention: while another
-- consumer, a stage or a producer keeps the table too, nobody is detached. Positions, batches and
-- pins of a detached consumer stay as they are. Its retried events wait: see retry_time.
-- Returns: 0.
-- Raises: PQ013 not READ COMMITTED: the read after the lock needs a new snapshot.
-- Writes: row locks and update pgq.registration; update pgq.retry_queue.
create or replace function pgq.maint_stalled()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms' as $$
declare
    q pgq.queue;
    r record;
    v_stalled int[];
    v_ticks bigint[];
    v_rest bigint;
    v_passed interval;
begin
    perform pgq.check_isolation('maint_stalled');
    for q in
        select * from pgq.queue due
         where pgq.is_rotation_due(due) and exists (
                select from pgq.registration
                 where sub_queue = queue_id and sub_stalls = 'detach' and sub_detached is null)
         order by queue_id
    loop
        v_stalled := '{}';
        v_ticks := '{}';
        for r in
            select s.sub_id, s.sub_stall_after, s.sub_stall_bytes, (
                   select min(pos_last_tick) from pgq.current_position p
                    where s.sub_id in (p.sub_id, p.sub_parent)) as tick_id
              from pgq.registration s
             where s.sub_queue = q.queue_id and s.sub_stalls = 'detach' and s.sub_detached is null
        loop
            continue when pgq.keeps_table(q, r.tick_id) is not true;
            v_passed := pgq.ticked_time(q, r.tick_id);
            if v_passed >= q.queue_rotation_period
                    and (v_passed >= r.sub_stall_after
                         or pgq.event_bytes(q) >= r.sub_stall_bytes) then
                v_stalled := v_stalled || r.sub_id;
                v_ticks := v_ticks || r.tick_id;
            end if;
        end loop;
        continue when v_stalled = '{}';
        v_rest := least(pgq.retained_tick(q), coalesce(
            (select min(pos_last_tick) from pgq.current_position
              where sub_queue = q.queue_id and sub_detached is null
                and coalesce(sub_parent, sub_id) <> all (v_stalled)),
            (select max(tick_id) from pgq.tick where tick_queue = q.queue_id)));
        continue when pgq.keeps_table(q, v_rest) is not false;
        for i in 1 .. cardinality(v_stalled) loop
            begin
                perform from pgq.registration
                  where sub_id = v_stalled[i] and sub_stalls = 'detach' and sub_detached is null
                    for update;
                continue when not found;
                perform from pgq.registration where sub_parent = v_stalled[i]
                  order by sub_id for update;
                -- one that has moved since stays attached
                continue when v_ticks[i] is distinct from (
                    select min(pos_last_tick) from pgq.current_position
                     where v_stalled[i] in (sub_id, sub_parent));
                update pgq.registration set sub_detached = clock_timestamp()
                 where v_stalled[i] in (sub_id, sub_parent);
                update pgq.retry_queue set ev_retry_after = 'infinity'
                 where ev_owner = v_stalled[i];
            exception when lock_not_available or deadlock_detected then
                null;  -- it is at work: the next round tries again
            end;
        end loop;
    end loop;
    return 0;
end $$;
comment on function pgq.maint_stalled is 'Detaches consumers that keep events for too long.';
