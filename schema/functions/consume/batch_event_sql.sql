-- The query of a batch: the events that its end tick sees and its start tick does not, without
-- those that finish_part finished. Built by range_sql.
--
-- In READ COMMITTED the batch is open while the query is built, so no event of it is gone. A
-- transaction with an older snapshot may still see a batch as open that another session finished,
-- and whose tables were truncated since: see lock_event_tables.
--
-- Returns: SQL text, ordered by ev_id (and by ev_txid, for an id that is there twice).
-- Raises: PQ003 batch not found; 40001 as check_snapshot, lock_event_tables.
-- Writes: as check_snapshot; outside READ COMMITTED as lock_event_tables.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    b record;
    v_sql text;
begin
    select * into b from pgq.find_batch(x_batch_id);
    if not found then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.lock_event_tables(b.queue_name);
    end if;
    v_sql := pgq.range_sql(b.queue_id, b.start_snapshot, b.end_snapshot, b.sub_id, null);
    if b.pos_from is not null or b.pos_done is not null then
        v_sql := format('select * from (%s) e where ev_id > %L and ev_id <> all (%L)', v_sql,
            coalesce(b.pos_from, -9223372036854775808), coalesce(b.pos_done, '{}'));
    end if;
    return v_sql || ' order by 1, 3';
end $$;
comment on function pgq.batch_event_sql(bigint) is 'The query of a batch.';
