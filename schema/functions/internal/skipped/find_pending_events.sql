-- Of some events, those that a position has not reached: the end of its open batch, else its last
-- tick, or the front, does not see them. Events in a piece are pending too. So an open batch
-- has no pending event.
--
-- The events of a stage count as those of the transaction that released it; while it waits, no tick
-- sees them.
-- Parameters: p: the position, locked by the caller. i_events: as find_events_by_id returns them.
-- Returns: null for none.
create or replace function pgq.find_pending_events(
    p pgq.current_position, i_events pgq.event_template[])
returns pgq.event_template[] language plpgsql as $$
declare
    v_end constant txid_snapshot := coalesce((
        select front_snapshot from pgq.front
         where front_sub = p.sub_id and p.sub_mode = 'shared' order by front_no desc limit 1), (
        select tick_snapshot from pgq.tick
         where tick_queue = p.sub_queue
           and tick_id = coalesce(p.pos_next_tick, p.pos_last_tick) limit 1));
    v_events pgq.event_template[];
begin
    execute format($sql$
        select array_agg(e)
          from unnest($1) e
          left join pgq.stage
            on stage_queue = $2 and stage_txid = ev_txid and ev_owner is null
         cross join lateral (
                select case when stage_txid is null then ev_txid
                           else stage_released_by end) v (txid)
         where (ev_owner is null or ev_owner = $3)
           and (txid_visible_in_snapshot(v.txid, $4) is not true or exists (
                select from pgq.piece
                 where piece_sub = $3 and piece_group = ev_id >> 10
                   and txid_visible_in_snapshot(v.txid, piece_end)
                   and not txid_visible_in_snapshot(v.txid, piece_start)))$sql$)
        into v_events using i_events, p.sub_queue, p.sub_id, v_end;
    return v_events;
end $$;
