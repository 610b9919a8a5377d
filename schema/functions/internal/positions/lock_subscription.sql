-- Makes the caller the only session that may move a subscription until its transaction ends, and
-- returns the position. The lock comes first and the query after it, as in lock_batch.
-- Parameters: i_run: a run calls, which may name a lane that it has, or end though it is detached.
-- Returns: the newest position.
-- Raises: PQ002 Not subscriber to queue; PQ013 not READ COMMITTED; PQ020 several processes run the
--   consumer; PQ024 as raise_detached.
-- Writes: row lock pgq.registration.
create or replace function pgq.lock_subscription(
    i_queue_name text, i_consumer_name text, i_run boolean default false)
returns pgq.position language plpgsql as $$
declare
    v_sub int := pgq.find_subscription(i_queue_name, i_consumer_name);
    p pgq.position;
    v_detached timestamptz;
begin
    perform pgq.check_isolation('moving a consumer');
    select sub_detached into v_detached
      from pgq.registration where sub_id = v_sub for no key update;
    select sub_id, pos_no, pos_last_tick, pos_next_tick, pos_batch, pos_active, pos_pins,
           pos_from, pos_done, pos_holder, pos_part, pos_tries,
           pos_until, pos_to, pos_cuts, pos_died, pos_ids, pos_moved into p
      from pgq.current_position where sub_id = v_sub;
    if not found then  -- unregistered while we waited
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002';
    end if;
    perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, sub_mode)
       from pgq.registration where sub_id = v_sub
        and (sub_mode in ('shared', 'lanes', 'inflight') or sub_mode = 'lane' and not i_run);
    if v_detached is not null and not i_run then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, v_detached);
    end if;
    return p;
end $$;
