-- Gives a run the next batch of one of its consumer's lanes: that which it has open; else one of a
-- lane that nobody works on. The lane that is furthest behind comes first, and among equals the
-- one that this run had last. A batch whose holder is dead is taken over under a new id (G5). A
-- lane has one batch open at a time, so the events of a key are handled in order, whoever handles
-- them.
--
-- The first read takes no lock of a lane. A claim locks the lane alone. A lane that another session
-- has locked is skipped: that one claims or finishes it just now. While lanes are being changed
-- (set_lanes), only the old ones are given out, up to their stop tick. If there is a tick for a
-- lane, the event tables are locked before its snapshot is read: a repair replaces the snapshots of
-- ticks and the txids of events, and by an old snapshot a search would find no event.
-- Parameters: i_holder: the run; its session holds its advisory lock
--   (lock_number 'run'), or it names a lease. i_wanted: see find_lane_tick. i_key: the key that the
--   run expects: by another one it gets old lanes only. The others as in take_part.
-- Returns: as take_part; worker is the lane, lane_key its key; subscription is the consumer's.
--   Without a batch, busy says how many lanes others hold.
-- Raises: PQ002 as find_lanes; PQ009 a bad i_holder, i_wanted below 1, or as lease_end; PQ012 as
--   raise_other_hash; PQ013 not READ COMMITTED; PQ015 as find_next_tick; PQ020 as find_lanes, or
--   the lanes have another key than i_key; PQ021 the consumer has another filter than i_filter; as
--   skip_ranges, check_filter.
-- Writes: row lock pgq.registration; insert or update pgq.position; as lock_event_tables,
--   touch_batch, skip_ranges, uncount_end, end_lanes.
create or replace function pgq.take_lane(
    i_queue_name text, i_consumer_name text, i_holder text, i_lease interval default null,
    i_dead_interval interval default null, i_min_lag interval default null,
    i_min_count int default null, i_min_interval interval default null,
    i_wanted int default null, i_filter jsonb default null, i_key text default null,
    out batch_id bigint, out cur_tick_id bigint, out prev_tick_id bigint,
    out cur_tick_time timestamptz, out prev_tick_time timestamptz, out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint, out part_size int, out tries int, out worker text,
    out died text[], out busy int, out subscription int, out lane_key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.registration;
    s pgq.current_position;
    v_seen pgq.current_position;
    v_changing boolean;  -- old lanes are there
    v_before boolean;
    v_last bigint;
    v_locked boolean := false;  -- the event tables
begin
    perform pgq.check_isolation('take_lane');
    if i_wanted < 1 then
        raise exception 'cannot take % events', i_wanted using errcode = 'PQ009',
            hint = 'i_wanted is 1 or more, or null for what a tick has';
    end if;
    perform pgq.check_name('holder', i_holder, 255);
    p := pgq.find_lanes(i_queue_name, i_consumer_name);
    if i_filter is not null and i_filter is distinct from p.sub_filter then
        perform pgq.check_asked_filter(c, i_filter)
           from pgq.current_position c where c.sub_id = p.sub_id;
    end if;
    select * into s from pgq.current_position
     where sub_parent = p.sub_id and pos_holder = i_holder and pos_batch is not null limit 1;
    if found and pgq.touch_batch(s.pos_batch, i_lease) = 0 then
        return;  -- it was taken over meanwhile
    end if;
    v_changing := exists (
        select from pgq.registration where sub_parent = p.sub_id and sub_stop_tick is not null);
    subscription := p.sub_id;
    loop  -- a second time if this call has brought the last old lane to its stop tick
        v_before := v_changing;
        if s.sub_id is null and v_changing and not exists (
                select from pgq.current_position
                 where sub_parent = p.sub_id and sub_stop_tick is not null
                   and (pos_last_tick < sub_stop_tick or pos_batch is not null))
        then
            v_changing := not pgq.end_lanes(p.sub_id);
        end if;
        exit when s.sub_id is not null or busy is not null and v_changing = v_before;
        if not v_changing and i_key <> (
                select sub_filter -> 'lane' ->> 2 from pgq.registration
                 where sub_parent = p.sub_id and sub_stop_tick is null limit 1) then
            raise exception 'the lanes of %/% have another key than %', i_queue_name,
                i_consumer_name, i_key using errcode = 'PQ020',
                hint = 'run it with the key of its lanes: pgq.set_lanes';
        end if;
        busy := 0;
        v_last := (select max(tick_id) from pgq.tick where tick_queue = p.sub_queue);
        for v_seen in
            select * from pgq.current_position
             where sub_parent = p.sub_id and (sub_stop_tick is not null or not v_changing)
             order by pos_last_tick, pos_holder is distinct from i_holder,
                   hashint4(sub_id # hashtext(i_holder))
        loop
            continue when v_seen.pos_batch is null and v_seen.pos_last_tick = v_last;
            if v_seen.pos_batch is null and not v_locked then
                perform pgq.lock_event_tables(i_queue_name);
                v_locked := true;
            end if;
            s := pgq.open_lane(v_seen, i_holder, i_lease, i_dead_interval, i_min_lag,
                i_min_count, i_min_interval, i_wanted, p.sub_filter);
            exit when s.sub_id is not null;
            busy := busy + (v_seen.pos_batch is not null)::int;
        end loop;
    end loop;
    busy := coalesce(busy, 0);
    if exists (
            select from pgq.current_position
             where sub_parent = p.sub_id and i_holder = any (pos_died)) then
        perform pgq.uncount_end(p.sub_id, i_holder);
    end if;
    if s.sub_id is null then
        return;
    end if;
    batch_id := s.pos_batch;
    part_size := s.pos_part;
    select e.tries, e.died into tries, died from pgq.count_ended(s.pos_tries, s.pos_died) e;
    lane_key := s.sub_filter -> 'lane' ->> 2;
    select substr(co_name, length(i_consumer_name) + 2) into worker
      from pgq.consumer where co_id = s.sub_consumer;
    select tick_id, tick_time, tick_event_seq
      into prev_tick_id, prev_tick_time, prev_tick_event_seq
      from pgq.tick where tick_queue = p.sub_queue and tick_id = s.pos_last_tick limit 1;
    select tick_id, tick_time, tick_event_seq into cur_tick_id, cur_tick_time, cur_tick_event_seq
      from pgq.tick where tick_queue = p.sub_queue and tick_id = s.pos_next_tick limit 1;
end $$;
comment on function pgq.take_lane is 'Gives a run the next batch of one of its consumer''s lanes.';
