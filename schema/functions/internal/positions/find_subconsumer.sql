-- The sub_id of a subconsumer.
-- Returns: null when it is not registered.
create or replace function pgq.find_subconsumer(
    i_queue_name text, i_consumer_name text, i_subconsumer_name text)
returns int language sql stable as $$
    select s.sub_id
      from pgq.queue q
      join pgq.consumer c on c.co_name = i_consumer_name || '.' || i_subconsumer_name
      join pgq.registration s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
      join pgq.registration parent on parent.sub_id = s.sub_parent
      join pgq.consumer pc on pc.co_id = parent.sub_consumer and pc.co_name = i_consumer_name
     where q.queue_name = i_queue_name
$$;
