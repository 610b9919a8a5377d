-- Function: pgq.tick_queue(i_queue_name text)
--
-- Ticks a queue now, whatever its thresholds: for a ticker that has seen new events.
--
-- Returns: the tick's id and its snapshot, which tells what was in progress and so is not in it; no row when the
--   queue is gone, paused or ticked from elsewhere.
-- Raises, writes: as insert_tick.
create or replace function pgq.tick_queue(i_queue_name text, out tick_id bigint, out tick_snapshot text)
returns setof record language sql
security definer set search_path = pg_catalog, pg_temp as $$
    select t.tick_id, t.tick_snapshot::text
      from pgq.queue q
     cross join lateral pgq.insert_tick(q.queue_id, null, null, null) t
     where q.queue_name = i_queue_name and not q.queue_external_ticker and not q.queue_ticker_paused
       and t.tick_id is not null
$$;
comment on function pgq.tick_queue(text) is 'Ticks a queue now and returns the tick''s snapshot.';
