-- Subscribes a consumer: it gets the events after the queue's last tick. x_consumer_id is its name;
-- the parameter is called as in PGQ, for calls by parameter names.
-- Returns, raises, writes: as register_consumer_at with a null tick.
create or replace function pgq.register_consumer(x_queue_name text, x_consumer_id text)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.register_consumer_at(x_queue_name, x_consumer_id, null)
$$;
comment on function pgq.register_consumer is 'Subscribes a consumer: 1 new, 0 already.';
