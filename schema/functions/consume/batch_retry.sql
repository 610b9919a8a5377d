-- Puts all events of an open batch into the retry queue, in one statement.
-- Returns: how many events were not in the retry queue before.
-- Raises: PQ003 batch_retry: batch not found; PQ009 a NULL delay; 40001 as lock_batch;
--   PQ012, 42501 as batch_event_sql.
-- Writes: as lock_batch, batch_event_sql; insert pgq.retry_queue.
create or replace function pgq.batch_retry(i_batch_id bigint, i_retry_seconds int)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    b record;
    v_count int;
begin
    if i_retry_seconds is null then
        raise exception 'Invalid NULL value: the delay' using errcode = 'PQ009';
    elsif (pgq.lock_batch(i_batch_id, false)).pos_sub is null then
        raise exception 'batch_retry: batch % not found', i_batch_id using errcode = 'PQ003';
    end if;
    select * into b from pgq.find_batch(i_batch_id);
    insert into pgq.retry_queue
    select now() + i_retry_seconds * interval '1 second', b.queue_id, ev_id, ev_time,
           txid_current(), b.owner, pgq.add_tries(ev_retry, 1),
           ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
      from pgq.get_batch_events(i_batch_id)
    on conflict (ev_owner, ev_id) do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.batch_retry is 'Puts a batch into the retry queue.';
