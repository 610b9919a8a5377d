-- Registers a consumer, if it is new, and divides it into lanes, unless it has some. Processes call
-- this when they start. A consumer that has lanes keeps them: set_lanes changes them.
-- Returns: the lanes that it has: their number and key.
-- Raises: PQ001, PQ005 as register_consumer; PQ009, PQ013 as set_lanes; PQ020 it runs without
--   lanes.
-- Writes: as register_consumer, set_lanes, if it has none.
create or replace function pgq.register_lanes(
    i_queue_name text, i_consumer_name text, i_lanes int, i_key text, out lanes int, out key text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_mode text;
    v_parent int;
    v_sub int;
begin
    loop
        select s.sub_id, s.sub_parent, s.sub_mode into v_sub, v_parent, v_mode
          from pgq.queue q
          join pgq.consumer c on c.co_name = i_consumer_name
          join pgq.registration s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
         where q.queue_name = i_queue_name;
        select (sub_filter -> 'lane' ->> 1)::int, sub_filter -> 'lane' ->> 2 into lanes, key
          from pgq.registration
         where sub_parent = v_sub and sub_mode = 'lane' and sub_stop_tick is null limit 1;
        if lanes is not null then
            return;
        elsif v_parent is not null or v_mode in ('plain', 'shared') then
            perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name,
                case when v_parent is null then 'without lanes'
                    else coalesce(v_mode, 'subconsumer') end);
        end if;
        if v_sub is null then
            perform pgq.register_consumer(i_queue_name, i_consumer_name);
        end if;
        perform pgq.set_lanes(i_queue_name, i_consumer_name, i_lanes, i_key);
    end loop;
end $$;
comment on function pgq.register_lanes is 'Registers a consumer with lanes; returns them.';
