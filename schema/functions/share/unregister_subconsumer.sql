-- Removes a worker's registration. Its retried and dead events belong to the consumer, and stay.
-- Parameters: i_batch_handling: 0: refuse while it has a batch open; 1: drop the batch, so that
--   nobody gets its unfinished events.
-- Returns: 1 removed, 0 was not registered.
-- Raises: PQ021 subconsumer has active batch.
-- Writes: row lock pgq.registration, pgq.consumer; as remove_registration.
create or replace function pgq.unregister_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text, i_batch_handling int)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off as $$
declare
    r pgq.registration;
    v_batch bigint;
begin
    select * into r from pgq.registration
     where sub_id = pgq.find_subconsumer(i_queue_name, i_consumer_name, i_subconsumer_name)
       for update;
    if not found then
        return 0;
    end if;
    v_batch := (select pos_batch from pgq.current_position where sub_id = r.sub_id);
    if v_batch is not null and i_batch_handling is distinct from 1 then
        raise exception 'subconsumer has active batch' using errcode = 'PQ021',
            detail = format('batch %s', v_batch),
            hint = 'finish it, or let another worker take it over: pgq.take_part';
    end if;
    perform from pgq.consumer where co_id = r.sub_consumer for update;
    perform pgq.remove_registration(r);
    return 1;
end $$;
comment on function pgq.unregister_subconsumer(text, text, text, int)
    is 'Removes a worker''s registration: 1 done, 0 none.';
