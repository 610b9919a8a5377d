-- Ticks a queue now, whatever its thresholds: for a ticker that has seen new events.
-- Returns: the tick's id and its snapshot, which lists the transactions in progress; no row when
--   the queue is missing, paused or has an external ticker.
-- Raises, writes: as insert_tick.
create or replace function pgq.tick_queue(
    i_queue_name text, out tick_id bigint, out tick_snapshot text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_queue_id int;
begin
    select queue_id into v_queue_id from pgq.queue
     where queue_name = i_queue_name and not queue_external_ticker and not queue_ticker_paused;
    if not found then
        return;
    end if;
    select t.tick_id, t.tick_snapshot::text into tick_queue.tick_id, tick_queue.tick_snapshot
      from pgq.insert_tick(v_queue_id, null, null, null) t;
    if tick_queue.tick_id is not null then
        return next;
    end if;
end $$;
comment on function pgq.tick_queue is 'Ticks a queue now and returns the tick''s snapshot.';
