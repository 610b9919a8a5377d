-- Drops a queue with its events. With x_force it unregisters the queue's consumers, and removes its
-- cron entries, first. A view, or a column of an event table's type, that depends on the queue's
-- tables is not dropped: the error names it, and the queue stays.
--
-- It waits for open transactions that use the queue, without a deadlock: see lock_queue. While its
-- locks are held, no other session writes the rows deleted here: each writer locks a registration,
-- an event table, the event sequence, the queue's row, the refill or a run in flight first.
-- Returns: 1.
-- Raises: PQ001; PQ008 it has consumers or cron entries; 2BP01 it captures tables, or other objects
--   depend on its tables or sequences; PQ013 not READ COMMITTED; 55P03 as lock_queue.
-- Writes: as lock_queue; delete pgq.queue, pgq.registration, pgq.position, pgq.retry_queue,
--   pgq.dead_event, pgq.delayed_event, pgq.skipped_event, pgq.consumer, pgq.checked,
--   pgq.tick, pgq.ledger, pgq.stage, pgq.dedup_key, pgq.cron, pgq.inflight_copy; as
--   unregister_consumer; drop tables and sequences; as build_insert_path.
create or replace function pgq.drop_queue(x_queue_name text, x_force boolean)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set client_min_messages = warning as $$
declare
    q pgq.queue;
    v_kind "char";
    v_name text;
    v_dependents text;
    v_captured text;
begin
    perform pgq.check_isolation('drop_queue');
    for v_turn in 1 .. 2 loop  -- check before the locks; again with them
        if v_turn = 2 then
            q := pgq.lock_queue(x_queue_name);
        end if;
        v_captured := (
            select string_agg(table_id::text, ' ') from pgq.get_captures(x_queue_name));
        if v_captured is not null then
            raise exception 'cannot drop queue, it captures tables' using errcode = '2BP01',
                detail = format('queue %s, tables %s', x_queue_name, v_captured),
                hint = format('pgqpy capture remove %s', v_captured);
        elsif x_force is not true and exists (
                select from pgq.registration join pgq.queue on queue_id = sub_queue
                 where queue_name = x_queue_name) then
            raise exception 'cannot drop queue, consumers still attached' using errcode = 'PQ008',
                detail = format('queue %s', x_queue_name),
                hint = 'unregister them, or drop with force';
        elsif x_force is not true and exists (
                select from pgq.cron join pgq.queue on queue_id = cron_queue
                 where queue_name = x_queue_name) then
            raise exception 'cannot drop queue, cron entries insert into it'
                using errcode = 'PQ008', detail = format('queue %s', x_queue_name),
                hint = 'remove them, or drop with force';
        end if;
    end loop;
    perform pgq.unregister_consumer(x_queue_name, c.co_name)
       from pgq.registration r join pgq.consumer c on c.co_id = r.sub_consumer
      where r.sub_queue = q.queue_id and r.sub_parent is null;
    begin
        for v_kind, v_name in
            select relkind, relname from pg_class
             where relnamespace = 'pgq'::regnamespace and relkind in ('r', 'S')
               and relname ~ concat('^event_', q.queue_id, '(_[0-9]+|_id_seq|_tick_seq)?$')
             order by relkind = 'S', relname desc  -- heirs, parent, sequences of their defaults
        loop
            execute format(case v_kind when 'S' then 'drop sequence pgq.%I'
                                       else 'drop table pgq.%I' end, v_name);
        end loop;
    exception when dependent_objects_still_exist then
        get stacked diagnostics v_dependents = pg_exception_detail;
        raise exception 'cannot drop queue, other objects depend on it' using errcode = '2BP01',
            detail = v_dependents,
            hint = 'drop these objects, or what in them depends on the queue, then repeat';
    end;
    delete from pgq.delayed_event where ev_queue = q.queue_id;
    delete from pgq.inflight_copy where copy_queue = q.queue_id;
    delete from pgq.dedup_key where dedup_queue = q.queue_id;
    delete from pgq.skipped_event where skip_sub = -q.queue_id;
    delete from pgq.cron where cron_queue = q.queue_id;
    delete from pgq.ledger where ledger_queue = q.queue_id;
    delete from pgq.stage where stage_queue = q.queue_id;
    delete from pgq.checked where checked_queue = q.queue_id;
    delete from pgq.tick where tick_queue = q.queue_id;
    delete from pgq.queue where queue_id = q.queue_id;
    perform pgq.build_insert_path(q.queue_id);
    return 1;
end $$;
comment on function pgq.drop_queue(text, boolean)
    is 'Drops a queue; with force its consumers too.';

create or replace function pgq.drop_queue(x_queue_name text) returns int language sql strict
return pgq.drop_queue(x_queue_name, false);
comment on function pgq.drop_queue(text) is 'Drops a queue without consumers.';
