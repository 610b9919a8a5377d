-- Removes a subconsumer. Its retried and dead events belong to the consumer, and stay.
-- Parameters: i_batch_handling: 0: refuse while it has a batch open; 1: drop the batch, so that
--   nobody gets its unfinished events.
-- Returns: 1 removed, 0 was not registered.
-- Raises: PQ013, PQ021 as unregister_consumer.
-- Writes: row lock pgq.registration; insert pgq.position; as unregister_consumer.
create or replace function pgq_coop.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling int)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_sub int;
begin
    perform pgq.check_isolation('unregister_subconsumer');
    select sub_id into v_sub from pgq.registration
     where sub_id = pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name)
       for update;
    if not found then
        return 0;
    elsif i_batch_handling = 1 then
        perform pgq.move_position(sub_id, pos_no, null, null, null)
           from pgq.current_position where sub_id = v_sub and pos_batch is not null;
    end if;
    return pgq.unregister_consumer(i_queue_name, i_consumer_name || '.' || i_subconsumer_name);
end $$;
comment on function pgq_coop.unregister_subconsumer is 'Removes a subconsumer: 1 done, 0 none.';
