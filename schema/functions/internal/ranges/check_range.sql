-- Refuses two ticks that make no range.
-- Raises: PQ009, a tick is null, or the second lies before the first.
create or replace function pgq.check_range(i_from_tick bigint, i_to_tick bigint)
returns void language plpgsql as $$
begin
    if i_from_tick is null or i_to_tick is null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'name both ticks of the range';
    elsif i_from_tick > i_to_tick then
        raise exception 'the range from tick % to tick % runs backwards', i_from_tick, i_to_tick
            using errcode = 'PQ009',
            hint = 'a range is what came after its first tick, up to its last';
    end if;
end $$;
