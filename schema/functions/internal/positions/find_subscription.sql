-- The sub_id of a consumer on a queue.
-- Raises: PQ002 Not subscriber to queue; PQ026 it was renamed.
create or replace function pgq.find_subscription(i_queue_name text, i_consumer_name text)
returns int language plpgsql stable as $$
declare
    v_sub int;
begin
    select s.sub_id into v_sub
      from pgq.registration s
      join pgq.queue q on q.queue_id = s.sub_queue
      join pgq.consumer c on c.co_id = s.sub_consumer
     where q.queue_name = i_queue_name and c.co_name = i_consumer_name;
    if not found then
        perform pgq.raise_if_renamed(i_queue_name);
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002';
    end if;
    return v_sub;
end $$;
