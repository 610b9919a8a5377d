-- Removes a subconsumer: PGQ's name for pgq.unregister_subconsumer.
-- Returns, raises, writes: as pgq.unregister_subconsumer.
create or replace function pgq_coop.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling int)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.unregister_subconsumer(
        i_queue_name, i_consumer_name, i_subconsumer_name, i_batch_handling)
$$;
comment on function pgq_coop.unregister_subconsumer is 'Removes a subconsumer: 1 done, 0 none.';
