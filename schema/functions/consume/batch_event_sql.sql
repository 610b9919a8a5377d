-- The query of a batch: the events that its end tick sees and its start tick does not, without
-- those that finish_part finished. Of a lease of receive, only the leased events. Built by
-- range_sql.
--
-- In READ COMMITTED the batch is open while the query is built, so no event of it is gone. A
-- transaction with an older snapshot may still see a batch as open that another session finished,
-- and whose tables were truncated since: see lock_event_tables.
--
-- The first read of a session checks whether the queue came from another cluster and needs a
-- repair. A queue that passes once passes until its row changes, so the session remembers the
-- row's version. The lock comes before the check: it waits for a repair, which changes the ticks.
--
-- Returns: SQL text, ordered by ev_id (and by ev_txid, for an id that is there twice).
-- Raises: PQ003 batch not found; PQ012 as check_moved; 40001 as check_snapshot, lock_event_tables;
--   42501 as range_sql.
-- Writes: as check_snapshot; as lock_event_tables, at the check and outside READ COMMITTED; the
--   session's setting pgq.checked_<queue id>.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off as $$
declare
    b record;
    v_sql text;
begin
    select * into b from pgq.find_batch(x_batch_id);
    if current_setting('pgq.checked_' || b.queue_id, true) is distinct from b.queue_version then
        perform pgq.lock_event_tables(b.queue_name);
        perform pgq.check_moved(pgq.find_queue(b.queue_name));
        perform set_config('pgq.checked_' || b.queue_id, b.queue_version, false);
        select * into b from pgq.find_batch(x_batch_id);
    end if;
    if not found then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform pgq.lock_event_tables(b.queue_name);
    end if;
    v_sql := pgq.range_sql(b.queue_id, b.start_snapshot, b.end_snapshot, b.owner, null);
    if b.pos_from is not null or b.pos_done is not null or b.pos_to is not null then
        v_sql := format('select * from (%s) e where ev_id > %L and ev_id <= %L and '
            'ev_id <> all (%L)', v_sql, coalesce(b.pos_from, -9223372036854775808),
            coalesce(b.pos_to, 9223372036854775807), coalesce(b.pos_done, '{}'));
    end if;
    if b.pos_ids is not null then
        v_sql := format('select * from (%s) r where ev_id = any (%L)', v_sql, b.pos_ids);
    end if;
    return v_sql || ' order by 1, 3';
end $$;
comment on function pgq.batch_event_sql(bigint) is 'The query of a batch.';
