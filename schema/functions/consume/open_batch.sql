-- Opens the consumer's next batch. A batch that is open already is returned, whatever the limits.
--
-- An idle consumer calls often, so the first read takes no lock and no xid. Only if there is a
-- batch to open, the registration is locked and the position read again: two sessions that call at
-- once get the same batch. Ticks are looked up one by one: see find_batch.
--
-- Of a subscription with a filter, ranges without an event for it are skipped: see skip_ranges. If
-- there is none with an event, the position moves on, and there is no batch.
--
-- A consumer counts the attempts of a batch: how many processes began to handle what comes first
-- in it. The count is committed before a handler runs, so a process that dies has left its mark,
-- and release_batch takes it back. A process that has the batch already, and lost only its
-- session, counts once: it names the batch. The count is updated in place, as it is no move: the
-- pos_no at which a session reads a part stays.
-- Parameters: i_min_lag: only ticks at least this old. A tick that lies further than this in the
--   future was made before the clock was stepped back, and counts as old enough. i_min_count,
--   i_min_interval: see find_tick_helper. i_held: the batch that the caller has open. i_counts: the
--   caller is a process that handles the batch, and makes the consumer plain: see sub_mode.
-- Returns: one row; batch_id is null when there is no batch yet. The event_seq columns are
--   estimates, never proof of an empty batch. attempts: null, if nobody counts them; position: the
--   pos_no, for finish_part.
-- Raises: PQ002 Not subscriber to queue; PQ013 not READ COMMITTED: the second read needs a snapshot
--   that is younger than the lock; PQ015 PgQ corruption; PQ020 it is shared, or a subconsumer;
--   PQ024 as raise_detached; PQ026. With a filter, as skip_ranges.
-- Writes: row lock pgq.registration, and update at the first call of all; insert or update
--   pgq.position; as skip_ranges.
create or replace function pgq.open_batch(
    i_queue_name text, i_consumer_name text, i_min_lag interval default null,
    i_min_count int default null, i_min_interval interval default null,
    i_held bigint default null, i_counts boolean default true,
    out batch_id bigint, out cur_tick_id bigint, out prev_tick_id bigint,
    out cur_tick_time timestamptz, out prev_tick_time timestamptz, out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint, out attempts int, out "position" bigint)
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
            perform pgq.raise_if_renamed(i_queue_name);
            raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
                using errcode = 'PQ002', hint = format(
                    'select pgq.register_consumer(%L, %L)', i_queue_name, i_consumer_name);
        elsif r.sub_mode = 'shared' or r.sub_parent is not null then
            perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
        elsif r.sub_detached is not null then
            perform pgq.raise_detached(i_queue_name, i_consumer_name, r.sub_detached);
        elsif r.tick_id is null then
            raise exception 'PgQ corruption: Consumer % on queue % does not see tick %',
                i_consumer_name, i_queue_name, r.pos_last_tick using errcode = 'PQ015',
                hint = 'move the consumer to a tick that is there: pgq.register_consumer_at';
        end if;
        if i_counts and r.sub_mode is null then
            update pgq.registration set sub_mode = 'plain'
             where sub_id = r.sub_id and sub_mode is null;
        end if;
        batch_id := r.pos_batch;
        prev_tick_id := r.tick_id;
        prev_tick_time := r.tick_time;
        prev_tick_event_seq := r.tick_event_seq;
        if batch_id is not null and i_counts and batch_id is distinct from i_held
                and not v_locked then
            perform from pgq.registration where sub_id = r.sub_id for no key update;
            v_locked := true;
            continue;
        elsif batch_id is not null then
            attempts := r.pos_attempts;
            "position" := r.pos_no;
            if i_counts and batch_id is distinct from i_held then
                attempts := coalesce(attempts, 0) + 1;
                -- A process that begins is no progress, unless nobody was at work for long:
                -- so doctor sees a consumer that starts again and again.
                update pgq.position
                   set pos_attempts = open_batch.attempts, pos_active = clock_timestamp(),
                       pos_moved = case
                           when clock_timestamp() - pos_active < interval '10 minutes'
                               then pos_moved else clock_timestamp() end
                 where pos_sub = r.sub_id and pos_no = r.pos_no;
            end if;
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
            perform pgq.move_position(r.sub_id, r.pos_no, prev_tick_id, null, null);
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
    attempts := case when i_counts then 1 end;
    "position" := r.pos_no + 1;
    perform pgq.move_position(r.sub_id, r.pos_no, prev_tick_id, cur_tick_id, batch_id,
        x_attempts => attempts);
end $$;
comment on function pgq.open_batch is 'Opens the consumer''s next batch, and counts attempts.';
