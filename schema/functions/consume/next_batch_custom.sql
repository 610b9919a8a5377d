-- Opens the consumer's next batch. A batch that is open already is returned, whatever the limits.
--
-- An idle consumer calls often, so the first read takes no lock and no xid. Only if there is a
-- batch to open, the registration is locked and the position read again: two sessions that call at
-- once get the same batch. Ticks are looked up one by one: see find_batch.
--
-- Of a subscription with a filter, ranges without an event for it are skipped: see skip_ranges. If
-- there is none with an event, the position moves on, and there is no batch.
-- Parameters: i_min_lag: only ticks at least this old. A tick that lies further than this in the
--   future was made before the clock was stepped back, and counts as old enough. i_min_count,
--   i_min_interval: see find_tick_helper.
-- Returns: one row; batch_id is null when there is no batch yet. The event_seq columns are
--   estimates, never proof of an empty batch.
-- Raises: PQ002 Not subscriber to queue; PQ013 not READ COMMITTED: the second read needs a snapshot
--   that is younger than the lock; PQ015 PgQ corruption; PQ020 workers share the consumer; PQ024 as
--   raise_detached. With a filter, as skip_ranges.
-- Writes: row lock pgq.registration; insert pgq.position; as skip_ranges.
create or replace function pgq.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_min_lag interval, i_min_count int,
    i_min_interval interval, out batch_id bigint, out cur_tick_id bigint, out prev_tick_id bigint,
    out cur_tick_time timestamptz, out prev_tick_time timestamptz, out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
    v_locked boolean := false;
begin
    perform pgq.check_isolation('opening a batch');
    loop
        select p.*, t.tick_time, t.tick_event_seq, t.tick_id
          into r
          from pgq.queue q
          join pgq.consumer c on c.co_name = i_consumer_name
          join pgq.current_position p on p.sub_queue = q.queue_id and p.sub_consumer = c.co_id
          left join lateral (
                select * from pgq.tick
                 where tick_queue = q.queue_id and tick_id = p.pos_last_tick limit 1) t on true
         where q.queue_name = i_queue_name;
        if not found then
            raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
                using errcode = 'PQ002', hint = format(
                    'select pgq.register_consumer(%L, %L)', i_queue_name, i_consumer_name);
        elsif r.sub_mode in ('shared', 'lanes', 'inflight') or r.sub_parent is not null then
            perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
        elsif r.sub_detached is not null then
            perform pgq.raise_detached(i_queue_name, i_consumer_name, r.sub_detached);
        elsif r.tick_id is null then
            raise exception 'PgQ corruption: Consumer % on queue % does not see tick %',
                i_consumer_name, i_queue_name, r.pos_last_tick using errcode = 'PQ015',
                hint = 'move the consumer to a tick that is there: pgq.register_consumer_at';
        end if;
        batch_id := r.pos_batch;
        prev_tick_id := r.tick_id;
        prev_tick_time := r.tick_time;
        prev_tick_event_seq := r.tick_event_seq;
        if batch_id is not null then
            select tick_id, tick_time, tick_event_seq
              into cur_tick_id, cur_tick_time, cur_tick_event_seq
              from pgq.tick where tick_queue = r.sub_queue and tick_id = r.pos_next_tick;
            return;
        end if;
        if i_min_count is null and i_min_interval is null then
            select tick_id, tick_time, tick_event_seq  -- as find_tick_helper, without its cost
              into cur_tick_id, cur_tick_time, cur_tick_event_seq
              from pgq.tick where tick_queue = r.sub_queue and tick_id > r.tick_id
             order by tick_id limit 1;
        else
            select * into cur_tick_id, cur_tick_time, cur_tick_event_seq
              from pgq.find_tick_helper(
                r.sub_queue, r.tick_id, r.tick_time, r.tick_event_seq, i_min_count, i_min_interval);
        end if;
        if cur_tick_id is null
                or clock_timestamp() - cur_tick_time < i_min_lag
                and clock_timestamp() - cur_tick_time >= -i_min_lag then
            cur_tick_id := null; prev_tick_id := null; cur_tick_time := null;
            prev_tick_time := null; cur_tick_event_seq := null; prev_tick_event_seq := null;
            return;
        end if;
        exit when v_locked;
        perform from pgq.registration where sub_id = r.sub_id for no key update;
        v_locked := true;
    end loop;
    if r.sub_filter is not null then
        select last_tick, next_tick into prev_tick_id, cur_tick_id
          from pgq.skip_ranges(
            (select c from pgq.current_position c where c.sub_id = r.sub_id), cur_tick_id,
            i_min_lag, i_min_count, i_min_interval);
        if cur_tick_id is null then
            perform pgq.move_position(r.sub_id, r.pos_no, prev_tick_id, null, null,
                x_holder => r.pos_holder, x_part => r.pos_part);
            prev_tick_id := null; cur_tick_time := null; prev_tick_time := null;
            cur_tick_event_seq := null; prev_tick_event_seq := null;
            return;
        end if;
        select tick_time, tick_event_seq into prev_tick_time, prev_tick_event_seq
          from pgq.tick where tick_queue = r.sub_queue and tick_id = prev_tick_id limit 1;
        select tick_time, tick_event_seq into cur_tick_time, cur_tick_event_seq
          from pgq.tick where tick_queue = r.sub_queue and tick_id = cur_tick_id limit 1;
    end if;
    batch_id := pgq.new_batch_id();
    perform pgq.move_position(r.sub_id, r.pos_no, prev_tick_id, cur_tick_id, batch_id,
        x_holder => r.pos_holder, x_part => r.pos_part);
end $$;
comment on function pgq.next_batch_custom is 'Opens the consumer''s next batch, with limits.';
