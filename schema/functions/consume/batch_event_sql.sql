-- The query of a batch: the events that its end tick sees and its start tick does not, without
-- those that finish_part finished, and those that the subscription's filter leaves out. Built by
-- range_sql. The first read of a session checks the queue: see check_queue.
--
-- In READ COMMITTED the batch is open while the query is built, so no event of it is gone. A
-- transaction with an older snapshot may still see a batch as open that another session finished,
-- and whose tables were truncated since: see lock_event_tables.
-- Returns: SQL text, ordered by ev_id (and by ev_txid, for an id that is there twice).
-- Raises: PQ003 batch not found; PQ012 as check_moved; 40001 as check_snapshot, lock_event_tables;
--   42501 as range_sql.
-- Writes: as check_snapshot; as check_queue; as lock_event_tables, outside READ COMMITTED.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    b record;
    v_sql text;
begin
    select * into b from pgq.find_batch(x_batch_id);
    if current_setting('pgq.checked_' || b.queue_id, true) is distinct from b.queue_version then
        perform pgq.check_queue(b.queue_id, b.queue_name, b.queue_version);
        select * into b from pgq.find_batch(x_batch_id);
    end if;
    if not found then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.lock_event_tables(b.queue_name);
    end if;
    v_sql := pgq.range_sql(b.queue_id, b.start_snapshot, b.end_snapshot, b.owner, null, b.filter);
    if b.pos_from is not null then
        v_sql := format('select * from (%s) e where ev_id operator(pg_catalog.>) %L', v_sql,
            b.pos_from);
    end if;
    return v_sql || ' order by 1, 3';
end $$;
comment on function pgq.batch_event_sql is 'The query of a batch.';
