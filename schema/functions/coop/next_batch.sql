-- Opens a subconsumer's next batch, or returns the one that it has open.
-- Returns, raises, writes: as pgq_coop.next_batch_custom without limits.
create or replace function pgq_coop.next_batch(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text,
    i_dead_interval interval default null)
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq_coop.next_batch_custom(
        i_queue_name, i_consumer_name, i_subconsumer_name, null, null, null, i_dead_interval)
$$;
comment on function pgq_coop.next_batch is 'Opens a subconsumer''s next batch.';
