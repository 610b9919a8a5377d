-- The two ticks of a range whose events are all still there. queue_low_tick is the first tick after
-- which no event was truncated. A caller that reads the events locks their tables first: see
-- lock_event_tables.
-- Returns: one row.
-- Raises: PQ001; PQ005 a tick never existed, was removed by compact_ticks, or is still to come;
--   PQ009 as check_range; PQ016 rotation removed events of the range (the detail says which ticks
--   are left); 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.find_range(
    i_queue_name text, i_from_tick bigint, i_to_tick bigint, out queue_id int,
    out from_snapshot txid_snapshot, out to_snapshot txid_snapshot)
language plpgsql as $$
declare
    q pgq.queue;
    v_missing bigint;
    v_first bigint;
    v_last bigint;
    v_detail text;
begin
    perform pgq.check_range(i_from_tick, i_to_tick);
    perform pgq.check_snapshot();
    q := pgq.find_queue(i_queue_name);
    queue_id := q.queue_id;
    select tick_snapshot into from_snapshot
      from pgq.tick where tick_queue = q.queue_id and tick_id = i_from_tick limit 1;
    select tick_snapshot into to_snapshot
      from pgq.tick where tick_queue = q.queue_id and tick_id = i_to_tick limit 1;
    if i_from_tick < q.queue_low_tick or from_snapshot is null then
        v_missing := i_from_tick;
    elsif to_snapshot is null then
        v_missing := i_to_tick;
    else
        return;
    end if;
    select min(tick_id) into v_first
      from pgq.tick where tick_queue = q.queue_id and tick_id >= q.queue_low_tick;
    select max(tick_id) into v_last from pgq.tick where tick_queue = q.queue_id;
    v_detail := concat('queue ', i_queue_name, ', tick_id=', v_missing,
        ', first_tick=', v_first, ', last_tick=', v_last);
    if v_missing < q.queue_low_tick then
        raise exception 'events after tick % were rotated away', v_missing using errcode = 'PQ016',
            detail = v_detail, hint = format('ticks %s to %s are left', v_first, v_last);
    elsif v_missing > v_last then
        raise exception 'tick % is in the future', v_missing using errcode = 'PQ005',
            detail = v_detail, hint = format('the last tick is %s', v_last);
    end if;
    raise exception 'tick not found: %', v_missing using errcode = 'PQ005', detail = v_detail,
        hint = format('the queue keeps ticks %s to %s, of the older ones one a second; see '
            'pgq.get_tick_info', v_first, v_last);
end $$;
