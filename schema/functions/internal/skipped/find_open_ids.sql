-- Which of some events an open batch still has: those of its range that nobody has finished. The
-- batch has them again when it is delivered again.
-- Parameters: p: the position of a consumer or a subconsumer. i_ids: the events. i_events: as
--   find_events_by_id returns them, since before the batch was opened: their transactions make the
--   search a probe of the index.
-- Returns: their ids. Raises: as range_sql.
create or replace function pgq.find_open_ids(
    p pgq.current_position, i_ids bigint[], i_events pgq.event_template[])
returns bigint[] language plpgsql as $$
declare
    v_owner constant int := coalesce(p.sub_parent, p.sub_id);
    v_filter constant jsonb := (select sub_filter from pgq.registration where sub_id = v_owner);
    v_start txid_snapshot;
    v_end txid_snapshot;
    v_open bigint[];
begin
    if p.pos_next_tick is null then
        return '{}';
    end if;
    select tick_snapshot into v_start from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1;
    select tick_snapshot into v_end from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_next_tick limit 1;
    execute format(
        'select array_agg(ev_id) from (%s) e where ev_txid = any ($1) and ev_id = any ($2)',
        pgq.range_sql(p.sub_queue, v_start, v_end, v_owner, null, v_filter))
        into v_open using array(
            select ev_txid from unnest(i_events) union
            select stage_released_by from unnest(i_events) join pgq.stage
                on stage_queue = p.sub_queue and stage_txid = ev_txid), i_ids;
    return array(select id from unnest(v_open) id where (id > p.pos_from) is not false);
end $$;
