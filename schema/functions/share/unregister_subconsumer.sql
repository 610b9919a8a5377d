-- Removes a worker's registration. Its retried and dead events belong to the consumer, and stay.
-- Parameters: i_batch_handling: 0: refuse while it has a batch open; 1: drop the batch, so that
--   nobody gets its unfinished events.
-- Returns: 1 removed, 0 was not registered.
-- Raises: PQ013 not READ COMMITTED; PQ021 as check_removable.
-- Writes: row lock pgq.registration, pgq.consumer; as remove_registration.
create or replace function pgq.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling int)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r pgq.registration;
begin
    perform pgq.check_isolation('unregister_subconsumer');
    select * into r from pgq.registration
     where sub_id = pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name)
       for update;
    if not found then
        return 0;
    end if;
    perform pgq.check_removable(r, i_batch_handling = 1);
    perform from pgq.consumer where co_id = r.sub_consumer for update;
    perform pgq.remove_registration(r);
    return 1;
end $$;
comment on function pgq.unregister_subconsumer is 'Removes a worker''s registration.';
