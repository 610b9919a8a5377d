-- Which of some events an open batch still has: its end tick sees them and its start tick does not,
-- the filter takes them, they were not cancelled before, no seek has dropped the copy, and nobody
-- has finished them. The batch has them again when it is delivered again. The conditions are those
-- of range_sql: change both. Parts of a cut range that no worker has yet count as open. A batch of
-- take_parked still has those of its events that are parked, also one that has failed in it: while
-- it is there, the batch leaves out the events of its key behind it (see parked_event_sql).
-- Parameters: p: the position of a consumer, a lane or a worker. i_ids: the events. i_events: as
--   find_events_by_id returns them, since before the batch was opened.
-- Returns: their ids.
create or replace function pgq.find_open_ids(
    p pgq.current_position, i_ids bigint[], i_events pgq.event_template[])
returns bigint[] language plpgsql as $$
declare
    v_owner constant int := coalesce(p.sub_parent, p.sub_id);
    r constant pgq.registration := (select o from pgq.registration o where o.sub_id = v_owner);
    v_filter constant jsonb :=
        case when p.sub_mode = 'lane' then p.sub_filter else r.sub_filter end;
    v_start txid_snapshot;
    v_end txid_snapshot;
    v_open bigint[];
begin
    if p.pos_next_tick is null then
        return '{}';
    elsif p.pos_next_tick = p.pos_last_tick then
        return array(
            select id from unnest(p.pos_ids) id
             where id = any (i_ids)
               and exists (select from pgq.parked where ev_owner = v_owner and ev_id = id));
    end if;
    select tick_snapshot into v_start from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1;
    select tick_snapshot into v_end from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_next_tick limit 1;
    execute format($sql$
        select array_agg(ev_id)
          from unnest($1) e
          left join pgq.stage
            on stage_queue = $2 and stage_txid = ev_txid and ev_owner is null
         cross join lateral (
                select case when stage_txid is null then ev_txid
                           else stage_released_by end) v (txid)
         where (ev_owner is null and %s or ev_owner = $3 and not exists (
                select from unnest($6, $7) d (dropped, above)
                 where ev_id > above and txid_visible_in_snapshot(ev_txid, dropped)))
           and %s
           and txid_visible_in_snapshot(v.txid, $4) is not true
           and txid_visible_in_snapshot(v.txid, $5)
           and not exists (
                select from pgq.skipped_event
                 where skip_sub = $3 and skip_txid = ev_txid and skip_id = ev_id)$sql$,
        coalesce(pgq.filter_sql(v_filter - 'lane'), 'true'),
        coalesce(pgq.lane_sql(v_filter -> 'lane'), 'true'))
        into v_open using i_events, p.sub_queue, v_owner, v_start, v_end, r.sub_dropped,
            r.sub_dropped_above;
    return array(
        select id from unnest(v_open) id
         where (id > p.pos_from) is not false and (id <= p.pos_to) is not false
           and id <> all (coalesce(p.pos_done, '{}')) and (id = any (p.pos_ids)) is not false);
end $$;
