-- Divides a consumer into lanes, which keep the events of one key in order over many processes.
--
-- A consumer that runs may get another number of lanes, or another key. The lanes that it has end
-- at the furthest tick that one of them has reached; the new ones begin there, but open nothing
-- while an old one is behind: see take_lane. So no key is in two lanes at any moment. A consumer
-- without lanes gets them while nobody runs it. The subconsumers of a shared one are removed.
-- Parameters: i_lanes: 1 to 1,024. i_key: type, or extra1 to extra4: where producers put the key.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002 not a subscriber; PQ009 another number or key, or as add_lanes; PQ012 as
--   raise_other_hash; PQ013 not READ COMMITTED; PQ020 it is a subconsumer, or a lane; PQ021 as
--   check_idle, or a reader of ticks uses it, or an earlier change is not done; 55P03 as
--   lock_consumers.
-- Writes: row locks, insert and update pgq.registration; insert pgq.position; as lock_consumers,
--   add_lanes, end_lanes, remove_registration.
create or replace function pgq.set_lanes(
    i_queue_name text, i_consumer_name text, i_lanes int, i_key text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_most constant int := 1024;
    p pgq.registration;
    r pgq.registration;
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    v_tick bigint;
begin
    perform pgq.check_isolation('set_lanes');
    if i_lanes is null or i_lanes not between 1 and c_most then
        raise exception 'cannot make % lanes', coalesce(i_lanes::text, 'NULL')
            using errcode = 'PQ009', hint = format('1 to %s are possible', c_most);
    elsif i_key is null or i_key not in ('type', 'extra1', 'extra2', 'extra3', 'extra4') then
        raise exception 'lanes have no key %', coalesce(left(i_key, 100), 'NULL')
            using errcode = 'PQ009',
            hint = 'it is type, extra1, extra2, extra3 or extra4: producers put the key there';
    end if;
    select * into p from pgq.registration where sub_id = v_sub;
    perform pgq.lock_consumers(p.sub_queue, v_sub);  -- no lane stands still while it waits for one
    select * into p from pgq.registration where sub_id = v_sub for no key update;
    if p.sub_parent is not null or p.sub_mode = 'inflight' then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    elsif p.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, p.sub_detached);
    end if;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for update;
    if p.sub_mode = 'lanes' then
        perform pgq.end_lanes(v_sub);  -- if no run has called since they were done
        select * into r from pgq.registration
         where sub_parent = v_sub and sub_stop_tick is null limit 1;
        if (r.sub_filter -> 'lane' ->> 3)::bigint <> pgq.key_hash() then
            perform pgq.raise_other_hash(v_sub);
        elsif (r.sub_filter -> 'lane') - 0 = jsonb_build_array(i_lanes, i_key, pgq.key_hash()) then
            return 0;
        elsif exists (
                select from pgq.registration
                 where sub_parent = v_sub and sub_stop_tick is not null) then
            raise exception 'the lanes of %/% are being changed', i_queue_name, i_consumer_name
                using errcode = 'PQ021', detail = (
                    select format('%s old lanes are not at tick %s yet', count(*), sub_stop_tick)
                      from pgq.current_position
                     where sub_parent = v_sub
                       and (pos_last_tick < sub_stop_tick or pos_batch is not null)
                     group by sub_stop_tick),
                hint = 'run the consumer until the change is done, then change again';
        end if;
        if r.sub_filter -> 'lane' ->> 2 <> i_key
                and exists (select from pgq.parked where ev_owner = v_sub) then
            raise exception 'events of the consumer %/% are parked by the old key', i_queue_name,
                i_consumer_name using errcode = 'PQ021',
                hint = 'run it until they are handled, or delete them: pgq.delete_parked';
        end if;
        v_tick := (select max(coalesce(pos_next_tick, pos_last_tick)) from pgq.current_position
             where sub_parent = v_sub);
        update pgq.registration set sub_stop_tick = v_tick where sub_parent = v_sub;
    else
        perform pgq.check_idle(v_sub, i_queue_name, i_consumer_name);
        if exists (select from pgq.current_position where sub_id = v_sub and pos_pins <> '{}') then
            raise exception 'a reader of ticks uses the consumer %/%', i_queue_name,
                i_consumer_name using errcode = 'PQ021',
                hint = 'such as the Spark source: give the consumer with lanes a name of its own';
        end if;
        for r in select * from pgq.registration where sub_parent = v_sub order by sub_id loop
            perform from pgq.consumer where co_id = r.sub_consumer for update;
            perform pgq.remove_registration(r);
        end loop;
        update pgq.registration set sub_mode = 'lanes' where sub_id = v_sub;
        select pos_last_tick into v_tick from pgq.current_position where sub_id = v_sub;
        perform pgq.move_position(v_sub, pos_no, null, null, null)
           from pgq.current_position where sub_id = v_sub;
    end if;
    perform pgq.add_lanes(p, i_lanes, i_key, v_tick);
    return 1;
end $$;
comment on function pgq.set_lanes is 'Divides a consumer into lanes: 1 changed, 0 it was so.';
