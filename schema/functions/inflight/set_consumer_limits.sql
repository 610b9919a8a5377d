-- Changes the limits of a shared consumer. They hold for the next claims; what is claimed stays
-- claimed. Between a per_key of 1 and a larger one, events in flight keep the order that they have:
-- so for a while, one more or one less of a key may be claimed.
-- Parameters: as register_shared_consumer.
-- Returns: 1 changed, 0 they were so.
-- Raises: PQ002; PQ009 as check_limits; PQ013 not READ COMMITTED; PQ020 not shared; PQ024 detached.
-- Writes: advisory lock; update pgq.registration; as change_per_key.
create or replace function pgq.set_consumer_limits(
    i_queue_name text, i_consumer_name text, i_per_key int, i_limit_in_flight int default null,
    i_rate double precision default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s pgq.registration;
begin
    perform pgq.check_isolation('set_consumer_limits');
    s := pgq.find_shared(i_queue_name, i_consumer_name);
    perform from pgq.registration where sub_id = s.sub_id for no key update;
    s := pgq.find_shared(i_queue_name, i_consumer_name);
    perform pgq.check_limits(s.sub_key, i_per_key, i_limit_in_flight, i_rate);
    perform pgq.change_per_key(s, i_per_key);
    update pgq.registration
       set sub_per_key = i_per_key, sub_limit = i_limit_in_flight, sub_rate = i_rate
     where sub_id = s.sub_id
       and (s.sub_per_key, s.sub_limit, s.sub_rate)
           is distinct from (i_per_key, i_limit_in_flight, i_rate);
    return found::int;
end $$;
comment on function pgq.set_consumer_limits is 'Changes the limits of a shared consumer.';
