-- Opens the consumer's next batch, or returns the one that is open.
-- Returns: the batch id; null when there is nothing yet.
-- Raises, writes: as open_batch.
create or replace function pgq.next_batch(i_queue_name text, i_consumer_name text)
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
    select batch_id from pgq.open_batch(i_queue_name, i_consumer_name, i_counts => false)
$$;
comment on function pgq.next_batch is 'Opens the consumer''s next batch.';
