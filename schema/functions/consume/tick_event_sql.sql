-- Function: pgq.tick_event_sql(i_queue_name text, i_from_tick bigint, i_to_tick bigint, i_stages bigint[])
--
-- The query of the events that came after one tick, up to another: those of the batches in between, but for retried
-- events, which belong to one consumer. No subscription is needed. The set is the same whenever it is asked for.
--
-- Run the text in the transaction that asked for it: only so long is rotation kept away. And as get_batch_events does for
-- itself: set local enable_seqscan = off, jit = off.
--
-- Parameters: i_stages: only the events of these of the range's stages; none: only those of no stage; null: all. The parts
--   make the whole: see get_tick_stages.
-- Returns: SQL text with the columns of get_tick_events, in no order.
-- Raises: PQ001; PQ005, PQ009, PQ016 as find_range; PQ009 a stage is not one of the range's; 40001 as lock_event_tables, check_snapshot.
-- Writes: as lock_event_tables, check_snapshot.
create or replace function pgq.tick_event_sql(i_queue_name text, i_from_tick bigint, i_to_tick bigint, i_stages bigint[] default null)
returns text language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
begin
    perform pgq.lock_event_tables(i_queue_name);
    select * into r from pgq.find_range(i_queue_name, i_from_tick, i_to_tick);
    return pgq.range_sql(r.queue_id, r.from_snapshot, r.to_snapshot, null, i_stages);
end
$$;
comment on function pgq.tick_event_sql(text, bigint, bigint, bigint[]) is 'The query of the events between two ticks, of all or of some stages.';
