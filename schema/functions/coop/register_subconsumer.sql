-- Registers a subconsumer, and its consumer if that is new: PGQ's name for
-- pgq.register_subconsumer.
-- Returns, raises, writes: as pgq.register_subconsumer.
create or replace function pgq_coop.register_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.register_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name)
$$;
comment on function pgq_coop.register_subconsumer is 'Registers a subconsumer: 1 new, 0 already.';
