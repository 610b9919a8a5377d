-- Opens the consumer's next batch, as next_batch does, and returns its ticks too.
-- Returns, raises, writes: as open_batch.
create or replace function pgq.next_batch_info(
    i_queue_name text, i_consumer_name text, out batch_id bigint, out cur_tick_id bigint,
    out prev_tick_id bigint, out cur_tick_time timestamptz, out prev_tick_time timestamptz,
    out cur_tick_event_seq bigint, out prev_tick_event_seq bigint)
language sql security definer set search_path = pg_catalog, pg_temp as $$
    select batch_id, cur_tick_id, prev_tick_id, cur_tick_time, prev_tick_time,
           cur_tick_event_seq, prev_tick_event_seq
      from pgq.open_batch(i_queue_name, i_consumer_name, i_counts => false)
$$;
comment on function pgq.next_batch_info is 'Opens the next batch; returns its ticks.';
