-- The registration of a shared consumer.
-- Raises: PQ002 not a subscriber; PQ026; PQ020 it is not shared; PQ024 as raise_detached.
create or replace function pgq.find_shared(i_queue_name text, i_consumer_name text)
returns pgq.registration language plpgsql as $$
declare
    r pgq.registration;
begin
    select s.* into r
      from pgq.queue q
      join pgq.consumer c on c.co_name = i_consumer_name
      join pgq.registration s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
     where q.queue_name = i_queue_name;
    if not found then
        perform pgq.raise_if_renamed(i_queue_name);
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002', hint = format(
                'select pgq.register_shared_consumer(%L, %L)', i_queue_name, i_consumer_name);
    elsif r.sub_mode is distinct from 'shared' then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name,
            case when r.sub_parent is null then coalesce(r.sub_mode, 'plain') else r.sub_mode end);
    elsif r.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, r.sub_detached);
    end if;
    return r;
end $$;
