-- Gives a worker of a shared consumer a range of its own: the one that its subconsumer has open;
-- else one that a dead holder left (holder_is_dead), under a new batch id; else the next range
-- after the consumer's position. The position moves on, and the worker reads and finishes its range
-- as any batch. Several workers read at once, so there is no order between their batches.
--
-- Of a consumer with a filter, ranges without an event for it are skipped: see skip_ranges.
--
-- An idle worker calls often, so the first read takes no lock. A claim locks the consumer, then the
-- worker's subconsumer, then that of the dead holder. The last two are skipped, not waited for: a
-- session that holds one of them may wait for the consumer, and a stopped process that keeps its
-- transaction open must not stop the others. So a batch that is being finished is not taken over.
--
-- A worker without a session of its own, behind a transaction pooler, keeps no subconsumer while it
-- is idle: it would have to extend a lease on it. So it names none, and a claim gives it one that
-- is idle, see lease_slot. Its open range is found by its token, and touched.
-- Parameters: i_subconsumer_name: null: one is chosen; i_holder and i_lease are needed then.
--   i_holder: the run of the worker, see pos_holder; its session holds the advisory lock
--   of its subconsumer (lock_number 'consumer'), and shares that of the run ('run'), or it names a
--   lease. Null, as for PGQ's own clients: only i_dead_interval tells that it is dead. i_lease: for
--   how long the range is the worker's without touch_batch; null: no lease. i_dead_interval: how
--   long another worker may be without a heartbeat; null: for ever. i_wanted: a range with more
--   events is cut into parts, and the worker gets half of its share of them (cut_range); null: it
--   is not cut, and the worker gets all of its share of one that is. i_filter: which events the
--   worker handles, see check_filter: it takes and skips nothing while the consumer has another
--   filter; null: whatever the consumer takes. The others as in next_batch_custom.
-- Returns: one row as next_batch_custom; part_size and tries as begin_run, which workers do not
--   call; worker: the subconsumer that has the range; died: the tokens of the runs whose ends tries
--   counts, see count_ended. A run whose end is counted, though it had only lost its session,
--   takes that back by its next call: so ask again before an event is given up.
-- Raises: PQ002 the consumer or the subconsumer is not registered; PQ013 not READ COMMITTED: a read
--   after the lock needs a new snapshot; PQ009 i_wanted below 1, or no subconsumer and no holder or
--   lease, or as check_name, lease_end, lease_slot, check_filter; PQ015 as find_next_tick; PQ020
--   the consumer is plain, or a subconsumer; PQ021 the consumer has a batch open, or another filter
--   than i_filter, or another live worker has this subconsumer; PQ022 as lease_slot; 40001 as
--   touch_batch; 42501 as cut_range; with a filter, as skip_ranges.
-- Writes: row lock pgq.registration; update pgq.registration at the first call; insert or update
--   pgq.position; as lease_slot, skip_ranges, uncount_end.
create or replace function pgq.take_part(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_holder text default null,
    i_lease interval default null, i_dead_interval interval default null,
    i_min_lag interval default null, i_min_count int default null,
    i_min_interval interval default null, i_wanted int default null,
    i_filter jsonb default null, out batch_id bigint, out cur_tick_id bigint,
    out prev_tick_id bigint, out cur_tick_time timestamptz, out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint, out prev_tick_event_seq bigint, out part_size int,
    out tries int, out worker text, out died text[])
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_worker constant text := i_consumer_name || '.' || i_subconsumer_name;
    p pgq.current_position;  -- the consumer's
    w pgq.current_position;  -- the worker's
    d pgq.current_position;  -- a dead holder's
    v_next bigint;
    v_cuts bigint[];
    v_share int;  -- so many parts
    v_until timestamptz;
    v_locked boolean := false;
begin
    perform pgq.check_isolation('take_part');
    if i_wanted < 1 then
        raise exception 'cannot take % events', i_wanted using errcode = 'PQ009',
            hint = 'i_wanted is 1 or more, or null for a range of any size';
    elsif i_subconsumer_name is null and (i_holder is null or i_lease is null) then
        raise exception 'a worker without a subconsumer' using errcode = 'PQ009',
            hint = 'name the subconsumer, or a holder and a lease';
    elsif i_holder is not null then
        perform pgq.check_name('holder', i_holder, 255);
    end if;
    loop
        v_until := pgq.lease_end(i_lease);
        p := pgq.find_shared(i_queue_name, i_consumer_name);
        if i_filter is not null and i_filter is distinct from p.sub_filter then
            perform pgq.check_asked_filter(p, i_filter);
        end if;
        if i_subconsumer_name is null then
            select s.* into w
              from pgq.current_position s
             where s.sub_parent = p.sub_id and s.pos_holder = i_holder and s.pos_batch is not null;
        else
            select s.* into w
              from pgq.consumer c
              join pgq.current_position s on s.sub_queue = p.sub_queue and s.sub_consumer = c.co_id
             where c.co_name = c_worker and s.sub_parent = p.sub_id;
        end if;
        if w.sub_id is null and i_subconsumer_name is not null then
            raise exception 'Not subscriber to queue: %/%', i_queue_name, c_worker
                using errcode = 'PQ002', detail = 'subconsumer=' || i_subconsumer_name,
                hint = format('select pgq.register_subconsumer(%L, %L, %L)', i_queue_name,
                    i_consumer_name, i_subconsumer_name);
        elsif w.pos_batch is not null then
            if i_subconsumer_name is not null then
                batch_id := pgq.resume_part(w.sub_id, i_holder, v_until, i_dead_interval);
            elsif pgq.touch_batch(w.pos_batch, i_lease) = 1 then
                batch_id := w.pos_batch;
            end if;
            if batch_id is null then
                return;  -- it was finished or taken over meanwhile
            end if;
            prev_tick_id := w.pos_last_tick;
            v_next := w.pos_next_tick;
            exit;
        elsif i_holder is null and not pgq.holder_is_dead(w.sub_id, '', null, now(), null) then
            perform pgq.raise_worker_lives(w);  -- else it would go on with the caller's batch
        elsif not v_locked then
            d := pgq.find_free_range(p.sub_id, i_dead_interval, false);
        elsif d.sub_id is not null then
            d := pgq.find_free_range(p.sub_id, i_dead_interval, true);
        end if;
        if d.sub_id is null then
            v_next := case when p.pos_cuts is not null then p.pos_next_tick
                else pgq.find_next_tick(p, i_min_lag, i_min_count, i_min_interval) end;
            if v_next is null then
                if w.pos_holder is distinct from i_holder and i_holder is not null
                        and pgq.uncount_end(p.sub_id, i_holder) then
                    perform pgq.show_holder(w.sub_id, i_holder);
                end if;
                return;
            end if;
        end if;
        if v_locked then
            if d.sub_id is null and p.sub_filter is not null and p.pos_cuts is null then
                select last_tick, next_tick into p.pos_last_tick, v_next
                  from pgq.skip_ranges(p, v_next, i_min_lag, i_min_count, i_min_interval);
                if v_next is null then
                    perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, null, null);
                    continue;  -- the next read finds no range
                end if;
            end if;
            batch_id := pgq.new_batch_id();
            if w.sub_id is null then
                w := pgq.lease_slot(p.sub_id);
            end if;
            if d.sub_id is not null then
                perform pgq.take_range(d, w, batch_id, i_holder, v_until);
                prev_tick_id := d.pos_last_tick;
                v_next := d.pos_next_tick;
            else
                v_cuts := coalesce(p.pos_cuts, pgq.cut_range(p, v_next, i_wanted));
                if v_cuts is not null then
                    v_share := ceil((cardinality(v_cuts) + 1.0)
                        / (select 1 + count(*) from pgq.current_position o  -- workers that live
                            where o.sub_parent = p.sub_id and o.sub_id <> w.sub_id
                              and (o.pos_batch is not null or not pgq.holder_is_dead(
                                   o.sub_id, '', null, now(), null)))
                        / case when i_wanted is null then 1 else 2 end);
                end if;
                if v_share <= cardinality(v_cuts) then
                    perform pgq.move_position(p.sub_id, p.pos_no, p.pos_last_tick, v_next, null,
                        x_from => v_cuts[v_share], x_cuts => v_cuts[v_share + 1:]);
                else
                    perform pgq.move_position(p.sub_id, p.pos_no, v_next, null, null);
                end if;
                perform pgq.move_position(w.sub_id, w.pos_no, p.pos_last_tick, v_next, batch_id,
                    x_from => p.pos_from, x_holder => i_holder, x_part => w.pos_part,
                    x_until => v_until, x_to => v_cuts[v_share]);
                prev_tick_id := p.pos_last_tick;
            end if;
            exit;
        end if;
        perform from pgq.registration where sub_id = p.sub_id for no key update;
        perform from pgq.registration where sub_id = w.sub_id for no key update skip locked;
        if not found and w.sub_id is not null then
            return;
        end if;
        update pgq.registration set sub_mode = 'shared'
         where sub_id = p.sub_id and sub_mode is null;
        v_locked := true;
    end loop;
    if w.pos_holder is distinct from i_holder and i_holder is not null then
        perform pgq.uncount_end(p.sub_id, i_holder);
    end if;
    select s.pos_part, s.pos_tries, s.pos_died, substr(c.co_name, length(i_consumer_name) + 2)
      into part_size, tries, died, worker
      from pgq.current_position s join pgq.consumer c on c.co_id = s.sub_consumer
     where s.sub_id = w.sub_id;
    select e.tries, e.died into tries, died from pgq.count_ended(tries, died) e;
    select tick_time, tick_event_seq into prev_tick_time, prev_tick_event_seq
      from pgq.tick where tick_queue = p.sub_queue and tick_id = prev_tick_id limit 1;
    select tick_id, tick_time, tick_event_seq into cur_tick_id, cur_tick_time, cur_tick_event_seq
      from pgq.tick where tick_queue = p.sub_queue and tick_id = v_next limit 1;
end $$;
comment on function pgq.take_part is 'Gives a worker of a shared consumer a range of its own.';
