-- Makes events of an open batch dead: they are kept with the reason, and not delivered again unless
-- revive_dead_events is called.
-- Parameters: ids and txids (as get_batch_events returned them) and reasons. The elements with the
--   same index belong to one event.
-- Returns: how many events were not dead before.
-- Raises: PQ003 batch not found; PQ004 event not found; PQ009 arrays of different lengths; 40001 as
--   lock_batch.
-- Writes: as lock_batch; insert pgq.dead_event.
create or replace function pgq.event_dead(
    x_batch_id bigint, x_event_ids bigint[], x_event_txids bigint[], x_reasons text[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_count int;
begin
    if cardinality(x_event_ids) is distinct from cardinality(x_reasons) then
        raise exception 'event ids and reasons differ in number' using errcode = 'PQ009';
    elsif (pgq.lock_batch(x_batch_id, false)).pos_sub is null then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    insert into pgq.dead_event
    select clock_timestamp(), coalesce(u.reason, ''), b.queue_id,
           e.ev_id, e.ev_time, e.ev_txid, b.sub_id, e.ev_retry,
           e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
      from pgq.find_batch(x_batch_id) b
     cross join pgq.find_batch_events(x_batch_id, x_event_ids, x_event_txids) e
      join (select distinct on (1) * from unnest(x_event_ids, x_reasons)) u (id, reason)
        on u.id = e.ev_id
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.event_dead(bigint, bigint[], bigint[], text[])
    is 'Makes events of an open batch dead, and keeps them with a reason.';
