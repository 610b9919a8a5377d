-- Opens a batch of parked events: the heads that are due, the longest first, with followers. The
-- batch lies between a tick and itself, so the position does not move, and other sessions neither
-- get nor finish it (G5). pos_ids lists its events. All functions of a batch work on it:
-- next_batch returns it again, event_dead and event_retry take its events. event_park leaves events
-- parked; finish_batch and finish_part remove the others.
--
-- Followers come with a head that has not failed: one that became the head because those before it
-- are done. A head that failed comes alone, so that another failure costs one event, however many
-- wait behind it.
--
-- The first read takes no lock: it often finds nothing.
-- Parameters: i_limit: at most so many events, from 1 to 1,000.
-- Returns: one row as next_batch_info. batch_id is null when no head is due, or a batch is open.
-- Raises: PQ002 not a subscriber; PQ009 a limit that is out of range; PQ013, PQ020 as
--   lock_subscription.
-- Writes: as lock_subscription; insert pgq.position.
create or replace function pgq.take_parked(
    i_queue_name text, i_consumer_name text, i_limit int, out batch_id bigint,
    out cur_tick_id bigint, out prev_tick_id bigint, out cur_tick_time timestamptz,
    out prev_tick_time timestamptz, out cur_tick_event_seq bigint, out prev_tick_event_seq bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position;
    t pgq.tick;
    v_ids bigint[];
    v_queue int;
begin
    if i_limit between 1 and 1000 is not true then
        raise exception 'a limit of % events is out of range', i_limit using errcode = 'PQ009',
            hint = 'from 1 to 1000';
    elsif pgq.next_parked(i_queue_name, i_consumer_name) <= interval '0' is not true then
        return;
    end if;
    p := pgq.lock_subscription(i_queue_name, i_consumer_name);
    if p.pos_batch is not null then
        return;
    end if;
    v_ids := pgq.choose_parked(p.pos_sub, i_limit, null);
    if v_ids = '{}' then
        return;
    end if;
    v_queue := (select sub_queue from pgq.registration where sub_id = p.pos_sub);
    select * into t from pgq.tick where tick_queue = v_queue and tick_id = p.pos_last_tick limit 1;
    batch_id := pgq.new_batch_id();
    cur_tick_id := p.pos_last_tick; prev_tick_id := p.pos_last_tick;
    cur_tick_time := t.tick_time; prev_tick_time := t.tick_time;
    cur_tick_event_seq := t.tick_event_seq; prev_tick_event_seq := t.tick_event_seq;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_last_tick, batch_id,
        x_holder => p.pos_holder, x_part => p.pos_part, x_ids => v_ids);
end $$;
comment on function pgq.take_parked is 'Opens a batch of the parked events that are due.';
