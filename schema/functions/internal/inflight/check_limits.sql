-- Refuses settings of a shared consumer that are out of range: see register_shared_consumer.
-- Raises: PQ009.
create or replace function pgq.check_limits(
    i_order_key text, i_per_key int, i_limit int, i_rate double precision)
returns void language plpgsql as $$
begin
    if i_order_key not in ('type', 'extra1', 'extra2', 'extra3', 'extra4') then
        raise exception 'no such key: %', i_order_key using errcode = 'PQ009',
            hint = 'name the column that orders events: type, or extra1 to extra4';
    elsif (i_per_key between 1 and 10000) is not true then
        raise exception 'a per_key of %', coalesce(i_per_key::text, 'null')
            using errcode = 'PQ009', hint = 'of a key, 1 to 10000 events are claimed at once';
    elsif i_per_key > 1 and i_order_key is null then
        raise exception 'a per_key of %, and no key', i_per_key using errcode = 'PQ009',
            hint = 'name the key, or set limit_in_flight, which counts all events';
    elsif i_limit < 1 then
        raise exception 'a limit_in_flight of %', i_limit using errcode = 'PQ009',
            hint = 'it is 1 or more; null: as many as receivers ask for';
    elsif i_rate is not null and (i_rate > 0 and i_rate <= 1e9) is not true then
        raise exception 'a rate of % events a second', i_rate using errcode = 'PQ009',
            hint = 'it is more than 0; null: as many as receivers ask for';
    end if;
end $$;
