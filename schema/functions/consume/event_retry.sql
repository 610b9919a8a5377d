-- Puts events of an open batch into the retry queue. Each is delivered to this consumer again when
-- its delay has passed. The batch is locked, so that a session that has lost it gets an error (G5),
-- and no retried event outlives its subscription.
-- Parameters: ids and txids (as get_batch_events returned them) and delays. The elements with the
--   same index belong to one event.
-- Returns: how many events were not in the retry queue before.
-- Raises: PQ003 batch not found; PQ004 event not found; PQ009 arrays of different lengths, or a
--   NULL delay; 40001 as lock_batch; PQ012, 42501 as batch_event_sql.
-- Writes: as lock_batch, batch_event_sql; insert pgq.retry_queue.
create or replace function pgq.event_retry(
    x_batch_id bigint, x_event_ids bigint[], x_event_txids bigint[], x_retry_after interval[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_count int;
begin
    if cardinality(x_event_ids) is distinct from cardinality(x_retry_after) then
        raise exception 'event ids and delays differ in number' using errcode = 'PQ009';
    elsif exists (select from unnest(x_retry_after) d where d is null) then
        raise exception 'Invalid NULL value: a delay' using errcode = 'PQ009';
    elsif (pgq.lock_batch(x_batch_id, false)).pos_sub is null then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    insert into pgq.retry_queue
    select now() + u.after, b.queue_id, e.ev_id, e.ev_time, txid_current(), b.owner,
           pgq.add_tries(e.ev_retry, 1),
           e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
      from pgq.find_batch(x_batch_id) b
     cross join pgq.find_batch_events(x_batch_id, x_event_ids, x_event_txids) e
      join (select distinct on (1) * from unnest(x_event_ids, x_retry_after)) u (id, after)
        on u.id = e.ev_id
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.event_retry(bigint, bigint[], bigint[], interval[]) is 'Retries events.';

-- Puts one event into the retry queue, in PGQ's form. No index has the event's id, so the call
-- reads the whole batch. For many events use the form with arrays.
-- Returns: 1 done, 0 it was there already.
-- Raises: PQ003 batch not found; PQ004 event not found; PQ009 a NULL time; 40001 as lock_batch;
--   PQ012, 42501 as batch_event_sql.
-- Writes: as lock_batch, batch_event_sql; insert pgq.retry_queue.
create or replace function pgq.event_retry(
    x_batch_id bigint, x_event_id bigint, x_retry_time timestamptz)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sql text := pgq.batch_event_sql(x_batch_id);
    v_txid bigint;
begin
    execute format('select ev_txid from (%s) e where ev_id = %L', v_sql, x_event_id) into v_txid;
    return pgq.event_retry(
        x_batch_id, array[x_event_id], array[v_txid], array[x_retry_time - now()]);
end $$;
comment on function pgq.event_retry(bigint, bigint, timestamptz) is 'Retries an event at a time.';

create or replace function pgq.event_retry(
    x_batch_id bigint, x_event_id bigint, x_retry_seconds int)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.event_retry(x_batch_id, x_event_id, now() + x_retry_seconds * interval '1 second')
$$;
comment on function pgq.event_retry(bigint, bigint, int) is 'Retries an event in some seconds.';
