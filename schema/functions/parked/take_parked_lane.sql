-- Gives a run a batch of parked events of one lane that nobody works on, as take_parked: heads that
-- are due, and their followers. The lane has one batch open at a time, of parked events or others.
-- So no event of a key is handled beside a parked one. take_lane gives an open batch again.
-- Parameters: as take_lane, and i_limit as take_parked.
-- Returns: as take_lane.
-- Raises: PQ002, PQ020 as find_lanes; PQ009 a limit that is out of range, or a bad i_holder, or as
--   lease_end; PQ013 not READ COMMITTED.
-- Writes: row lock pgq.registration; insert pgq.position.
create or replace function pgq.take_parked_lane(
    i_queue_name text, i_consumer_name text, i_holder text, i_limit int,
    i_lease interval default null, i_key text default null, out batch_id bigint,
    out cur_tick_id bigint, out prev_tick_id bigint, out cur_tick_time timestamptz,
    out prev_tick_time timestamptz, out cur_tick_event_seq bigint,
    out prev_tick_event_seq bigint, out part_size int, out tries int, out worker text,
    out died text[], out busy int, out subscription int, out lane_key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.registration;
    v pgq.current_position;
    s pgq.current_position;
    v_ids bigint[];
    v_until timestamptz;
begin
    perform pgq.check_isolation('take_parked_lane');
    if i_limit between 1 and 1000 is not true then
        raise exception 'a limit of % events is out of range', i_limit using errcode = 'PQ009',
            hint = 'from 1 to 1000';
    end if;
    perform pgq.check_name('holder', i_holder, 255);
    v_until := pgq.lease_end(i_lease);
    p := pgq.find_lanes(i_queue_name, i_consumer_name);
    subscription := p.sub_id;
    busy := 0;
    if pgq.next_parked(i_queue_name, i_consumer_name) <= interval '0' is not true or exists (
            select from pgq.current_position
             where sub_parent = p.sub_id and pos_holder = i_holder and pos_batch is not null) then
        return;
    end if;
    for v in
        select * from pgq.current_position c
         where sub_parent = p.sub_id and pos_batch is null
           and (sub_stop_tick is not null
                or (sub_filter -> 'lane' ->> 2 = i_key) is not false and not exists (
                    select from pgq.registration
                     where sub_parent = p.sub_id and sub_stop_tick is not null))
         order by pos_holder is distinct from i_holder, hashint4(sub_id # hashtext(i_holder))
    loop
        v_ids := pgq.choose_parked(p.sub_id, i_limit, v.sub_filter -> 'lane');
        continue when v_ids = '{}';
        perform from pgq.registration where sub_id = v.sub_id for no key update skip locked;
        continue when not found;
        select * into s from pgq.current_position where sub_id = v.sub_id;
        if s.pos_no = v.pos_no and s.sub_stop_tick is not distinct from v.sub_stop_tick then
            batch_id := pgq.new_batch_id();
            exit;
        end if;
    end loop;
    if batch_id is null then
        return;
    end if;
    perform pgq.move_position(s.sub_id, s.pos_no, s.pos_last_tick, s.pos_last_tick, batch_id,
        x_holder => i_holder, x_part => s.pos_part, x_until => v_until,
        x_ids => v_ids);
    part_size := s.pos_part;
    lane_key := s.sub_filter -> 'lane' ->> 2;
    select substr(co_name, length(i_consumer_name) + 2) into worker
      from pgq.consumer where co_id = s.sub_consumer;
    select tick_id, tick_id, tick_time, tick_time, tick_event_seq, tick_event_seq
      into prev_tick_id, cur_tick_id, prev_tick_time, cur_tick_time, prev_tick_event_seq,
           cur_tick_event_seq
      from pgq.tick where tick_queue = p.sub_queue and tick_id = s.pos_last_tick limit 1;
end $$;
comment on function pgq.take_parked_lane is 'Gives a run a batch of parked events of one lane.';
