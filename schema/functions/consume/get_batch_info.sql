-- An open batch's queue, consumer, ticks and lag (now minus the time of its end tick).
-- Returns: one row, all null when the batch is not open.
-- Raises, writes: as check_snapshot.
create or replace function pgq.get_batch_info(
    x_batch_id bigint, out queue_name text, out consumer_name text, out batch_start timestamptz,
    out batch_end timestamptz, out prev_tick_id bigint, out tick_id bigint, out lag interval,
    out seq_start bigint, out seq_end bigint)
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select queue_name, consumer_name, start_time, end_time, start_tick, end_tick,
           now() - end_time, start_seq, end_seq
      from pgq.find_batch(x_batch_id)
$$;
comment on function pgq.get_batch_info is 'The queue, consumer and ticks of an open batch.';
