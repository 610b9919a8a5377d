-- Makes events of an open batch dead: they are kept with the reason, until revive_dead_events.
-- Parameters: arrays, whose elements with the same index belong to one event. x_event_ids,
--   x_event_txids: as get_batch_events returned them. x_reasons: texts. x_errors, x_tracebacks: the
--   class and the traceback of an exception. x_tries: how often a handler had the event; null: once
--   more than it was retried. The last three arrays may be null: then so are their elements.
-- Returns: how many events were not dead before.
-- Raises: PQ003 batch not found; PQ004 event not found; PQ009 arrays of different lengths; 40001 as
--   lock_batch; PQ012, 42501 as batch_event_sql.
-- Writes: as lock_batch, batch_event_sql; insert pgq.dead_event.
create or replace function pgq.event_dead(
    x_batch_id bigint, x_event_ids bigint[], x_event_txids bigint[], x_reasons text[],
    x_errors text[] default null, x_tracebacks text[] default null, x_tries int[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_count int;
begin
    if cardinality(x_event_ids) is distinct from cardinality(x_reasons)
        or cardinality(x_errors) <> cardinality(x_event_ids)
        or cardinality(x_tracebacks) <> cardinality(x_event_ids)
        or cardinality(x_tries) <> cardinality(x_event_ids) then
        raise exception 'event ids and reasons differ in number' using errcode = 'PQ009',
            hint = 'errors, tracebacks and tries are null, or have one element for each event';
    elsif (pgq.lock_batch(x_batch_id, false)).pos_sub is null then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    insert into pgq.dead_event (dead_time, dead_error, dead_reason, dead_traceback, dead_tries,
           ev_queue, ev_id, ev_time, ev_txid, ev_owner, ev_retry,
           ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    select clock_timestamp(), u.error, coalesce(u.reason, ''), u.traceback,
           coalesce(u.tries, pgq.add_tries(e.ev_retry, 1)),
           b.queue_id, e.ev_id, e.ev_time, e.ev_txid, b.owner, e.ev_retry,
           e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
      from pgq.find_batch(x_batch_id) b
     cross join pgq.find_batch_events(x_batch_id, x_event_ids, x_event_txids) e
      join (select distinct on (1) *
              from unnest(x_event_ids, x_reasons, x_errors, x_tracebacks, x_tries))
           u (id, reason, error, traceback, tries)
        on u.id = e.ev_id
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.event_dead is 'Makes events of an open batch dead, with a reason.';
