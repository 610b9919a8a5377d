-- The end of the next refill: now; in a backlog, the tick before which there are about i_events new
-- events. The tick of a snapshot is one that the snapshot sees.
--
-- While rows of a table are copied, only a tick is a cut that has the rows in their place: see
-- copy_chunk. The lock is held until the end of the transaction, which delays the copy only.
-- Returns: the snapshot, with an event sequence and a tick of that time; is_tick: it is a tick's,
--   and there is more behind it.
create or replace function pgq.next_front(
    s pgq.registration, f pgq.front, i_events int, out snapshot txid_snapshot, out seq bigint,
    out tick bigint, out is_tick boolean)
language plpgsql as $$
declare
    v_sequence constant regclass := 'pgq.' || pgq.event_table(s.sub_queue) || '_id_seq';
begin
    seq := coalesce(pg_sequence_last_value(v_sequence), 0);
    if seq > f.front_seq + 2 * i_events then
        select tick_snapshot, tick_id, tick_event_seq into snapshot, tick, seq
          from pgq.tick
         where tick_queue = s.sub_queue and tick_id > f.front_tick
           and tick_event_seq >= f.front_seq + i_events
           and txid_snapshot_xmax(tick_snapshot) > txid_snapshot_xmax(f.front_snapshot)
         order by tick_id limit 1;
    end if;
    is_tick := snapshot is not null;
    if is_tick then
        return;
    elsif pg_try_advisory_xact_lock_shared(pgq.lock_number('copying'), s.sub_queue) then
        -- one statement: the snapshot sees the tick, and so all that the tick sees
        select txid_current_snapshot(), tick_id into snapshot, tick
          from pgq.tick where tick_queue = s.sub_queue order by tick_id desc limit 1;
        seq := coalesce(pg_sequence_last_value(v_sequence), 0);
        return;
    end if;
    select tick_snapshot, tick_id, tick_event_seq into snapshot, tick, seq
      from pgq.tick where tick_queue = s.sub_queue order by tick_id desc limit 1;
    if txid_snapshot_xmax(snapshot) <= txid_snapshot_xmax(f.front_snapshot) then
        snapshot := f.front_snapshot;
        tick := f.front_tick;
        seq := f.front_seq;
    end if;
end $$;
