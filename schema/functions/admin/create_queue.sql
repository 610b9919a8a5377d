-- Creates a queue with its tables, sequences and first tick. The name has at most 59 octets: "pgq_"
-- and the name make the LISTEN channel, which has at most 63.
-- A queue that had the name before does not refer to it any more: see rename_queue.
-- Returns: 1 created, 0 exists.
-- Raises: PQ009 as check_name; 40001 in REPEATABLE READ, another session was faster.
-- Writes: advisory lock; insert pgq.queue, pgq.tick; update pgq.queue, if another had the name; as
--   mark_checked; create tables and functions.
create or replace function pgq.create_queue(i_queue_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_id int;
begin
    perform pgq.check_name('queue', i_queue_name, 59);
    perform pg_advisory_xact_lock(pgq.lock_number('engine'), pgq.lock_number('changing'));
    if exists (select from pgq.queue where queue_name = i_queue_name) then
        return 0;
    end if;
    v_id := nextval('pgq.queue_queue_id_seq');
    insert into pgq.queue (queue_id, queue_name, queue_system_id)
    values (v_id, i_queue_name, pgq.system_identifier())
    on conflict (queue_name) do nothing  -- an older snapshot does not show it, so this is 40001
    returning * into q;
    update pgq.queue set queue_former_names = array_remove(queue_former_names, i_queue_name)
     where i_queue_name = any (queue_former_names);
    perform pgq.mark_checked(v_id, 1);
    execute format('create sequence pgq.%I', pgq.event_table(v_id) || '_tick_seq');
    execute format('create sequence pgq.%I', pgq.event_table(v_id) || '_id_seq');
    execute format('create table pgq.%I () inherits (pgq.event_template)', pgq.event_table(v_id));
    for i in 0 .. q.queue_ntables - 1 loop
        perform pgq.create_event_table(q, i);
    end loop;
    perform pgq.grant_perms(i_queue_name);
    perform pgq.build_insert_path(v_id);
    -- not insert_tick, which needs READ COMMITTED; no other session can have ticked the queue
    insert into pgq.tick (tick_queue, tick_id, tick_snapshot, tick_event_seq)
    values (v_id, nextval(q.queue_tick_seq::regclass),
        pgq.exclude_own_xid(txid_current_snapshot()), 0);
    return 1;
end $$;
comment on function pgq.create_queue is 'Creates a queue: 1 created, 0 exists.';
