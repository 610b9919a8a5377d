-- Keeps the ticks and the events of a range that a subscription will read. Rotation removes nothing
-- after its position, and compact_ticks keeps the two ticks. The pins of the range before are
-- dropped. Pin a range before you store it anywhere: without the pin a tick may be gone. The ticks
-- are read in the transaction that pins them, so compact_ticks waits for it, and sees the pins.
-- Returns: 1; 0 if these ticks are pinned already.
-- Raises: PQ002 not a subscriber; PQ005, PQ009, PQ016 as find_range; PQ009 an empty range; PQ017
--   the subscription is beyond the range, or has an open batch: another session uses it; PQ013,
--   PQ020 as lock_subscription.
-- Writes: as lock_subscription; insert pgq.position.
create or replace function pgq.pin_range(
    i_queue_name text, i_consumer_name text, i_from_tick bigint, i_to_tick bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position;
    v_pins bigint[];
begin
    perform pgq.check_range(i_from_tick, i_to_tick);
    if i_from_tick = i_to_tick then
        raise exception 'the range from tick % to tick % is empty', i_from_tick, i_to_tick
            using errcode = 'PQ009', hint = 'pin it once there is a later tick';
    end if;
    p := pgq.lock_subscription(i_queue_name, i_consumer_name);
    if p.pos_batch is not null or p.pos_last_tick <= i_from_tick is not true then
        perform pgq.raise_subscription_moved(i_queue_name, i_consumer_name, p, i_from_tick);
    end if;
    perform pgq.find_range(i_queue_name, i_from_tick, i_to_tick);
    v_pins := array_remove(array[i_from_tick, i_to_tick], p.pos_last_tick);
    if v_pins = p.pos_pins then
        return 0;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, null, null, v_pins);
    return 1;
end $$;
comment on function pgq.pin_range is 'Keeps ticks for a subscription: 1 done, 0 it was so.';
