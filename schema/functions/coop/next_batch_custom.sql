-- Opens a subconsumer's next batch, or returns the one that it has open. It registers what is
-- missing. Where PGQ's function removes subconsumers that were silent for i_dead_interval, this one
-- lets those without a batch be, because they may live. A batch that is taken over gets a new id,
-- so that the subconsumer that lost it cannot finish it.
-- Parameters: i_dead_interval: take over the batch of a subconsumer that was silent for so long;
--   null: never. The others as in pgq.next_batch_custom.
-- Returns: the batch id; null when there is nothing.
-- Raises, writes: as pgq.take_part, pgq.register_subconsumer.
create or replace function pgq_coop.next_batch_custom(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_min_lag interval,
    i_min_count int, i_min_interval interval, i_dead_interval interval default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name) is null then
        perform pgq.register_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name);
    end if;
    return (select batch_id from pgq.take_part(i_queue_name, i_consumer_name, i_subconsumer_name,
        i_dead_interval => i_dead_interval, i_min_lag => i_min_lag, i_min_count => i_min_count,
        i_min_interval => i_min_interval));
end $$;
comment on function pgq_coop.next_batch_custom
    is 'Opens a subconsumer''s next batch, with limits.';
