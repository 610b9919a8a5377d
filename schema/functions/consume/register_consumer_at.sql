-- Subscribes a consumer from a tick on, or moves a subscribed consumer there. Its open batch is
-- dropped, and those of its subconsumers; its retried events stay. One that reads ranges of ticks
-- still does: see pgq.position; its pins are dropped. With a null tick, a new consumer starts from
-- the last tick, and a subscribed one stays where it is.
--
-- The queue's row is share-locked. A rotation and maint_ticks lock it for update, so neither can
-- count the consumers while one is coming, and then remove what that one starts from. A consumer
-- that is moved is locked as in seek_consumer: see add_registration.
-- Returns: 1 new, 0 was subscribed.
-- Raises: PQ001; PQ005 cannot reposition, or no ticks; PQ009 a bad consumer name; PQ013 not
--   READ COMMITTED; PQ020 a subconsumer has this name.
-- Writes: key share lock pgq.queue; advisory lock; as add_registration, reset_front; insert
--   pgq.skipped_event, pgq.position.
create or replace function pgq.register_consumer_at(
    x_queue_name text, x_consumer_name text, x_tick_pos bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    p record;
    r record;
    v_tick bigint := x_tick_pos;
begin
    perform pgq.check_name('consumer', x_consumer_name, 255);
    perform pgq.check_isolation('registering or moving a consumer');
    perform from pgq.queue where queue_name = x_queue_name for key share;
    q := pgq.find_queue(x_queue_name);  -- the statement that locks the row may return an older one
    if v_tick is null then
        v_tick := (select max(tick_id) from pgq.tick where tick_queue = q.queue_id);
        if v_tick is null then
            raise exception 'No ticks for this queue.  Please run ticker on database.'
                using errcode = 'PQ005';
        end if;
    elsif v_tick < q.queue_low_tick
            or not exists (
                select from pgq.tick where tick_queue = q.queue_id and tick_id = v_tick) then
        raise exception 'cannot reposition, tick not found: %', v_tick using errcode = 'PQ005',
            hint = (select format('the queue keeps ticks %s to %s, of the older ones one a second; '
                              'the last before this one: %s', min(tick_id), max(tick_id),
                              coalesce(max(tick_id) filter (where tick_id < v_tick)::text, 'none'))
                      from pgq.tick where tick_queue = q.queue_id and tick_id >= q.queue_low_tick);
    end if;
    if not exists (
            select from pgq.registration s join pgq.consumer c on c.co_id = s.sub_consumer
             where s.sub_queue = q.queue_id and c.co_name = x_consumer_name) then
        -- Before the name, or two sessions could deadlock: see hide_events.
        perform pg_advisory_xact_lock(pgq.lock_number('skips'), q.queue_id);
    end if;
    r := pgq.add_registration(q.queue_id, x_consumer_name, null, x_tick_pos is not null);
    if r.is_new or x_tick_pos is not null then
        if r.sub_parent is not null then
            perform pgq.raise_wrong_mode(x_queue_name, x_consumer_name, r.sub_mode);
        end if;
        perform from pgq.registration where sub_parent = r.sub_id order by sub_id for update;
        if r.is_new then
            -- Cancelled events, also those that the tick sees: it may be moved back before them.
            perform pg_advisory_xact_lock(pgq.lock_number('skips'), q.queue_id);
            insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
            select r.sub_id, skip_txid, skip_id from pgq.skipped_event
             where skip_sub = -q.queue_id and skip_txid > 0;  -- 0: after a repair
        end if;
        perform pgq.move_position(sub_id, pos_no, null, null, null)
           from pgq.current_position where sub_parent = r.sub_id and pos_batch is not null;
        select pos_no, pos_pins into p from pgq.current_position where sub_id = r.sub_id;
        perform pgq.move_position(
            r.sub_id, coalesce(p.pos_no, 0), v_tick, null, null,
            x_pins => case when p.pos_pins is not null then '{}'::bigint[] end);
        if r.sub_mode = 'shared' then
            perform pgq.reset_front(q.queue_id, r.sub_id, v_tick);
        end if;
    end if;
    return r.is_new::int;
end $$;
comment on function pgq.register_consumer_at is 'Subscribes a consumer at a tick, or moves it.';
