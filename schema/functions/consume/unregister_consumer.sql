-- Ends a subscription: deletes its position, its subconsumers, and its retried, dead and kept
-- events, its replay, and what is in flight. The registrations are locked in the order of
-- pgq.registration, then the names in the same order, as register_subconsumer does.
-- Returns: how many registrations were removed: 1 plus the number of subconsumers; 0 was not
--   subscribed.
-- Raises: PQ013 not READ COMMITTED; PQ021 it is a subconsumer with a batch open.
-- Writes: row lock pgq.registration, pgq.consumer; as remove_registration.
create or replace function pgq.unregister_consumer(x_queue_name text, x_consumer_name text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r pgq.registration;
    v_sub int;
    v_batch bigint;
    v_count int := 0;
begin
    perform pgq.check_isolation('unregister_consumer');
    select s.* into r
      from pgq.registration s
      join pgq.queue q on q.queue_id = s.sub_queue
      join pgq.consumer c on c.co_id = s.sub_consumer
     where q.queue_name = x_queue_name and c.co_name = x_consumer_name
       for update of s;
    if not found then
        return 0;
    end if;
    v_sub := r.sub_id;
    v_batch := (select pos_batch from pgq.current_position where sub_id = v_sub);
    if r.sub_parent is not null and v_batch is not null then
        raise exception 'subconsumer has active batch' using errcode = 'PQ021',
            detail = format('batch %s', v_batch),
            hint = 'finish it, or drop it: pgq_coop.unregister_subconsumer';
    end if;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for update;
    perform from pgq.registration s join pgq.consumer c on c.co_id = s.sub_consumer
      where v_sub in (s.sub_id, s.sub_parent) order by s.sub_id for update of c;
    for r in
        select * from pgq.registration where v_sub in (sub_id, sub_parent) order by sub_id desc
    loop
        perform pgq.remove_registration(r);
        v_count := v_count + 1;
    end loop;
    return v_count;
end $$;
comment on function pgq.unregister_consumer is 'Ends a subscription: how many were removed.';
