-- Makes the caller the only session that may move a subscription until its transaction ends, and
-- returns the position. The lock comes first and the query after it, as in lock_batch.
-- Returns: the newest position.
-- Raises: PQ002 Not subscriber to queue; PQ013 not READ COMMITTED; PQ020 it is shared,
--   or a subconsumer; PQ024 as raise_detached.
-- Writes: row lock pgq.registration.
create or replace function pgq.lock_subscription(i_queue_name text, i_consumer_name text)
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
           pos_from, pos_moved, pos_attempts into p
      from pgq.current_position where sub_id = v_sub;
    if not found then  -- unregistered while we waited
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002';
    end if;
    perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, sub_mode)
       from pgq.registration
      where sub_id = v_sub and (sub_mode = 'shared' or sub_parent is not null);
    if v_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, v_detached);
    end if;
    return p;
end $$;
