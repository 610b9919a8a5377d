-- Moves a subscription from one tick to a later one, if it is at the first. The reader has read the
-- events in between by ticks (get_tick_events) and will not read them again. Of two readers that
-- start from the same tick, the second gets an error. Pins beyond the new position stay; without
-- any, the empty array tells that the subscription is read by ticks. A reader that has not read a
-- range yet says so by naming the same tick twice.
-- Returns: 1 moved; 0 it is at i_to_tick already, as after a repeated call.
-- Raises: PQ002 not a subscriber; PQ005, PQ009, PQ016 as find_range; PQ017 it is elsewhere, or has
--   an open batch; PQ013, PQ020 as lock_subscription.
-- Writes: as lock_subscription; insert pgq.position.
create or replace function pgq.advance_subscription(
    i_queue_name text, i_consumer_name text, i_from_tick bigint, i_to_tick bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position;
begin
    perform pgq.check_range(i_from_tick, i_to_tick);
    p := pgq.lock_subscription(i_queue_name, i_consumer_name);
    if p.pos_batch is not null
            or p.pos_last_tick in (i_from_tick, i_to_tick) is not true then
        perform pgq.raise_subscription_moved(i_queue_name, i_consumer_name, p, i_from_tick);
    elsif p.pos_last_tick = i_to_tick then
        if p.pos_pins is null then
            perform pgq.move_position(p.pos_sub, p.pos_no, i_to_tick, null, null, '{}');
        end if;
        return 0;
    end if;
    perform pgq.find_range(i_queue_name, i_from_tick, i_to_tick);
    perform pgq.move_position(p.pos_sub, p.pos_no, i_to_tick, null, null,
        array(select pin from unnest(p.pos_pins) pin where pin > i_to_tick order by pin));
    return 1;
end $$;
comment on function pgq.advance_subscription is 'Moves a subscription that is read by ticks.';
