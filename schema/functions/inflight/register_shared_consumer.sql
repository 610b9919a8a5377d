-- Subscribes a shared consumer from the last tick on, or makes a subscribed consumer shared that
-- nobody runs: it goes on from its position.
-- Parameters: i_order_key: type or extra1 to extra4: events with the same value are handled in
--   their order; null: there is no order.
-- Returns: 1 new, 0 was subscribed.
-- Raises: PQ001; PQ005 no ticks; PQ009 a bad name or key; PQ013 not READ COMMITTED; PQ020 it is a
--   subconsumer, or shared with another key; PQ021 as check_idle.
-- Writes: as register_consumer_at, reset_front; update pgq.registration.
create or replace function pgq.register_shared_consumer(
    i_queue_name text, i_consumer_name text, i_order_key text default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.current_position;
    v_sub int;
    v_key text;
    v_new int;
begin
    if i_order_key not in ('type', 'extra1', 'extra2', 'extra3', 'extra4') then
        raise exception 'no such key: %', i_order_key using errcode = 'PQ009',
            hint = 'name the column that orders events: type, or extra1 to extra4';
    end if;
    v_new := pgq.register_consumer_at(i_queue_name, i_consumer_name, null);
    v_sub := pgq.find_subscription(i_queue_name, i_consumer_name);
    select sub_key into v_key from pgq.registration where sub_id = v_sub for no key update;
    select * into p from pgq.current_position where sub_id = v_sub;
    if p.sub_mode = 'inflight' and v_key is distinct from i_order_key then
        raise exception 'the consumer %/% is shared with %, not with %', i_queue_name,
            i_consumer_name, coalesce('the key ' || v_key, 'no key'),
            coalesce('the key ' || i_order_key, 'no key') using errcode = 'PQ020',
            hint = 'name the same key, or unregister the consumer first';
    elsif p.sub_mode = 'inflight' then
        return v_new;
    elsif p.sub_parent is not null or p.sub_mode in ('shared', 'lanes') then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    end if;
    perform pgq.check_idle(v_sub, i_queue_name, i_consumer_name);
    update pgq.registration set sub_mode = 'inflight', sub_key = i_order_key
     where sub_id = p.sub_id;
    perform pgq.reset_front(p.sub_queue, p.sub_id, p.pos_last_tick);
    return v_new;
end $$;
comment on function pgq.register_shared_consumer is 'Subscribes a consumer that many share.';
