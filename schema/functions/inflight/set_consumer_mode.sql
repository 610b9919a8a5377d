-- Makes a consumer shared (receive) or plain (next_batch), and changes the key of a shared one.
-- Nothing is lost, and nothing comes twice.
--
-- To shared: nobody runs the consumer, and no batch is open. It goes on from its position, and what
-- waits for a retry comes when it is due. To plain: nothing is claimed. See leave_flight for what
-- is in flight. Another key: nothing is in flight, claimed or not; else events of one key, some by
-- the old one and some by the new, would be handled at once. A shared consumer keeps its limits.
-- Parameters: i_mode: shared or plain. i_order_key, i_per_key: as register_shared_consumer.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002; PQ009 another mode, or as check_limits; PQ013 not READ COMMITTED; PQ020 it is a
--   subconsumer; PQ021 it runs, or events are claimed, or in flight; PQ024 detached.
-- Writes: row lock pgq.registration, advisory lock; update pgq.registration; as reset_front,
--   sweep_runs, leave_flight, change_per_key.
create or replace function pgq.set_consumer_mode(
    i_queue_name text, i_consumer_name text, i_mode text, i_order_key text default null,
    i_per_key int default 1)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s pgq.registration;
    v_batch bigint;
begin
    perform pgq.check_isolation('set_consumer_mode');
    if (i_mode in ('plain', 'shared')) is not true then
        raise exception 'no such mode: %', coalesce(i_mode, 'null') using errcode = 'PQ009',
            hint = 'plain: one process runs the consumer; shared: receivers share it';
    end if;
    perform pgq.check_limits(i_order_key, i_per_key, null, null);
    s.sub_id := pgq.find_subscription(i_queue_name, i_consumer_name);
    perform from pgq.registration where sub_id = s.sub_id for update;
    select * into s from pgq.registration where sub_id = s.sub_id;
    if s.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, s.sub_mode);
    elsif s.sub_mode is distinct from 'shared' and i_mode = 'plain' then
        update pgq.registration set sub_mode = 'plain' where sub_id = s.sub_id and sub_mode is null;
        return found::int;
    elsif s.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, s.sub_detached);
    elsif s.sub_mode is distinct from 'shared' then
        v_batch := (select pos_batch from pgq.current_position
             where s.sub_id in (sub_id, sub_parent) and pos_batch is not null limit 1);
        if v_batch is not null or pgq.is_running(s.sub_id) then
            raise exception 'the consumer %/% is running', i_queue_name, i_consumer_name
                using errcode = 'PQ021', detail = coalesce('batch ' || v_batch || ' is open',
                    format('a session holds the advisory lock (%s, %s)',
                        pgq.lock_number('consumer'), s.sub_id)),
                hint = 'stop it first; a run, or finish_batch, finishes an open batch';
        end if;
        perform pgq.reset_front(sub_queue, sub_id, pos_last_tick)
           from pgq.current_position where sub_id = s.sub_id;
    elsif i_mode = 'plain' then
        perform pgq.leave_flight(s, i_queue_name, i_consumer_name);
        update pgq.registration
           set sub_mode = 'plain', sub_key = null, sub_per_key = 1, sub_limit = null,
               sub_rate = null
         where sub_id = s.sub_id;
        return 1;
    elsif s.sub_key is not distinct from i_order_key and s.sub_per_key = i_per_key then
        return 0;
    elsif s.sub_key is not distinct from i_order_key then
        perform pgq.change_per_key(s, i_per_key);
    else
        perform pg_advisory_xact_lock(pgq.lock_number('refill'), s.sub_id);
        perform pgq.raise_in_flight(s, i_queue_name, i_consumer_name, true);
        delete from pgq.last_run where last_sub = s.sub_id;
    end if;
    update pgq.registration
       set sub_mode = 'shared', sub_key = i_order_key, sub_per_key = i_per_key
     where sub_id = s.sub_id;
    return 1;
end $$;
comment on function pgq.set_consumer_mode is 'Makes a consumer shared or plain.';
