-- Ends a subscription: deletes its position, its retried and its dead events. The consumer's name
-- is deleted when no other subscription uses it. Its row is locked before that check, against a
-- register_consumer on another queue.
-- Returns: 1 removed, 0 was not subscribed.
-- Writes: row lock and delete pgq.registration, pgq.consumer; delete pgq.position, pgq.retry_queue,
--   pgq.dead_event.
create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r pgq.registration;
begin
    select s.* into r
      from pgq.registration s
      join pgq.queue q on q.queue_id = s.sub_queue
      join pgq.consumer c on c.co_id = s.sub_consumer
     where q.queue_name = x_queue_name and c.co_name = x_consumer_name
       for update of s;
    if not found then
        return 0;
    end if;
    delete from pgq.retry_queue where ev_owner = r.sub_id;
    delete from pgq.dead_event where ev_owner = r.sub_id;
    delete from pgq.position where pos_sub = r.sub_id;
    delete from pgq.registration where sub_id = r.sub_id;
    perform from pgq.consumer where co_id = r.sub_consumer for update;
    delete from pgq.consumer
     where co_id = r.sub_consumer and not exists (select from pgq.registration
         where sub_consumer = r.sub_consumer);
    return 1;
end $$;
comment on function pgq.unregister_consumer(text, text) is 'Ends a subscription: 1 done, 0 none.';
