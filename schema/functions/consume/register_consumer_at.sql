-- Function: pgq.register_consumer_at(x_queue_name text, x_consumer_name text, x_tick_pos bigint)
--
-- Subscribes a consumer from a tick on, or moves one that is subscribed there; an open batch is dropped, retried
-- events stay. With a null tick: from the last tick, and a subscribed consumer stays where it is.
--
-- The queue's row is share-locked: a rotation and maint_ticks lock it against that, so neither can count the consumers
-- while one is coming and then take away what this one starts from.
--
-- Returns: 1 new, 0 was subscribed.
-- Raises: PQ001 Event queue not created yet; PQ005 cannot reposition, or no ticks; PQ009 a bad consumer name.
-- Writes: key share lock pgq.queue; insert pgq.consumer, pgq.registration, pgq.position; row lock pgq.registration.
create or replace function pgq.register_consumer_at(x_queue_name text, x_consumer_name text, x_tick_pos bigint)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_sub int;
    v_new int;
    v_tick bigint := x_tick_pos;
begin
    perform pgq.check_name('consumer', x_consumer_name, 255);
    select * into q from pgq.queue where queue_name = x_queue_name for key share;
    if not found then
        raise exception 'Event queue not created yet' using errcode = 'PQ001', detail = format('queue %s', x_queue_name),
            hint = format('select pgq.create_queue(%L)', x_queue_name);
    end if;
    if v_tick is null then
        v_tick := (select max(tick_id) from pgq.tick where tick_queue = q.queue_id);
        if v_tick is null then
            raise exception 'No ticks for this queue.  Please run ticker on database.' using errcode = 'PQ005';
        end if;
    elsif v_tick < q.queue_low_tick
            or not exists (select from pgq.tick where tick_queue = q.queue_id and tick_id = v_tick) then
        raise exception 'cannot reposition, tick not found: %', v_tick using errcode = 'PQ005',
            hint = (select format('the queue keeps ticks %s to %s', min(tick_id), max(tick_id))
                      from pgq.tick where tick_queue = q.queue_id and tick_id >= q.queue_low_tick);
    end if;
    insert into pgq.consumer (co_name) values (x_consumer_name) on conflict do nothing;
    insert into pgq.registration (sub_queue, sub_consumer)
    select q.queue_id, co_id from pgq.consumer where co_name = x_consumer_name
    on conflict do nothing;
    get diagnostics v_new = row_count;
    select sub_id into v_sub from pgq.registration
     where sub_queue = q.queue_id and sub_consumer = (select co_id from pgq.consumer where co_name = x_consumer_name)
       for no key update;
    if v_new = 1 or x_tick_pos is not null then
        perform pgq.move_position(v_sub, coalesce((select max(pos_no) from pgq.position where pos_sub = v_sub), 0), v_tick, null, null);
    end if;
    return v_new;
end
$$;
comment on function pgq.register_consumer_at(text, text, bigint) is 'Subscribes a consumer from a tick on, or moves it there.';
