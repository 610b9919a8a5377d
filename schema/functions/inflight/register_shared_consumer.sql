-- Subscribes a shared consumer from the last tick on. Programs that run it call this first, each
-- with the settings that it was written for: if they are not those of the consumer, it is refused
-- before it claims anything. set_consumer_mode makes a plain consumer shared.
-- Parameters: i_order_key: type or extra1 to extra4: events with the same value are handled in
--   their order; null: there is no order. i_per_key: at most so many events of a key are claimed at
--   once; from 2 on, there is no order. i_limit_in_flight: at most so many events are claimed at
--   once, by all; null: there is no limit. i_rate: at most so many are claimed in a second, by all;
--   null: there is no limit. i_per_key null: the limits are not named: those that it has hold.
-- Returns: 1 new, 0 was subscribed, with these settings.
-- Raises: PQ001; PQ005 no ticks; PQ009 as check_name, check_limits; PQ013 not READ COMMITTED; PQ020
--   it is not shared, or has other settings.
-- Writes: as register_consumer_at, reset_front; update pgq.registration.
create or replace function pgq.register_shared_consumer(
    i_queue_name text, i_consumer_name text, i_order_key text default null,
    i_per_key int default 1, i_limit_in_flight int default null,
    i_rate double precision default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_named constant boolean := i_per_key is not null or i_limit_in_flight is not null
        or i_rate is not null;
    v_asked text[] := array[i_order_key, i_per_key::text, i_limit_in_flight::text, i_rate::text];
    r pgq.registration;
    v_new int;
    v_sub int;
    v_has text[];
    v_settings text;  -- for pgqpy consumer set
begin
    perform pgq.check_limits(
        i_order_key, case when c_named then i_per_key else 1 end, i_limit_in_flight, i_rate);
    v_new := pgq.register_consumer_at(i_queue_name, i_consumer_name, null);
    v_sub := pgq.find_subscription(i_queue_name, i_consumer_name);
    select * into r from pgq.registration where sub_id = v_sub for no key update;
    if v_new = 1 then
        update pgq.registration
           set sub_mode = 'shared', sub_key = i_order_key,
               sub_per_key = coalesce(i_per_key, 1), sub_limit = i_limit_in_flight,
               sub_rate = i_rate
         where sub_id = r.sub_id;
        perform pgq.reset_front(sub_queue, sub_id, pos_last_tick)
           from pgq.current_position where sub_id = r.sub_id;
        return 1;
    elsif r.sub_mode is distinct from 'shared' then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name,
            case when r.sub_parent is null then coalesce(r.sub_mode, 'plain')
                 else r.sub_mode end);
    end if;
    v_has := array[r.sub_key, r.sub_per_key::text, r.sub_limit::text, r.sub_rate::text];
    v_asked := case when c_named then v_asked else v_asked[:1] || v_has[2:] end;
    if v_has is distinct from v_asked then
        v_settings := replace(replace(pgq.show_settings(v_asked, v_has), ' = ', '='), ', ', ' ');
        raise exception 'the consumer %/% is shared with %, not with %', i_queue_name,
            i_consumer_name, pgq.show_settings(v_has, v_asked), pgq.show_settings(v_asked, v_has)
            using errcode = 'PQ020', hint = case when r.sub_key is distinct from i_order_key
                then format('name its key; or, while nothing is in flight: pgqpy consumer set '
                    '%s %s mode=shared %s, or select pgq.set_consumer_mode(%L, %L, ''shared'', '
                    '%L, %s)', i_queue_name, i_consumer_name, v_settings, i_queue_name,
                    i_consumer_name, i_order_key, coalesce(i_per_key, r.sub_per_key))
                else format('name its limits; or change them: pgqpy consumer set %s %s %s, or '
                    'select pgq.set_consumer_limits(%L, %L, %s, %s, %s)', i_queue_name,
                    i_consumer_name, v_settings, i_queue_name, i_consumer_name, i_per_key,
                    coalesce(i_limit_in_flight::text, 'null'), coalesce(i_rate::text, 'null'))
                end;
    end if;
    return 0;
end $$;
comment on function pgq.register_shared_consumer is 'Subscribes a consumer that many share.';
