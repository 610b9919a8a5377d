-- The query of the events after one tick, up to another: the events of the batches in between,
-- without retried events, which belong to one consumer. It needs no subscription, and selects the
-- same events whenever it is built.
--
-- Run the query in the transaction that called this function: it keeps rotation away only so long.
-- Use the settings of get_batch_events: set local enable_seqscan = off, jit = off, row_security =
-- off. In another transaction, in READ COMMITTED, first lock the event tables and then check that
-- queue_low_tick is not above i_from_tick and that the end tick is still the same, as
-- pgqpy/spark/source/read_task.py does.
-- Parameters: i_stages: only the events of these stages of the range; an empty array: only those of
--   no stage; null: all. See get_tick_stages. i_filter: only these events, see check_filter.
-- Returns: SQL text with the columns of get_tick_events, in no order.
-- Raises: PQ001; PQ005, PQ009, PQ016 as find_range; PQ009 a stage is not one of the range's, or as
--   check_filter; PQ012 as check_moved; 40001 as lock_event_tables, check_snapshot; 42501 as
--   range_sql.
-- Writes: as lock_event_tables, check_snapshot.
create or replace function pgq.tick_event_sql(
    i_queue_name text, i_from_tick bigint, i_to_tick bigint, i_stages bigint[] default null,
    i_filter jsonb default null)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
begin
    perform pgq.lock_event_tables(i_queue_name);
    perform pgq.check_moved(pgq.find_queue(i_queue_name));
    select * into r from pgq.find_range(i_queue_name, i_from_tick, i_to_tick);
    return pgq.range_sql(r.queue_id, r.from_snapshot, r.to_snapshot, null, i_stages,
        pgq.check_filter(i_filter));
end $$;
comment on function pgq.tick_event_sql is 'The query of the events between two ticks.';
