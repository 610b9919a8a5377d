-- The registration of a consumer with lanes.
-- Raises: PQ002 not a subscriber; PQ020 it has none; PQ024 as raise_detached.
create or replace function pgq.find_lanes(i_queue_name text, i_consumer_name text)
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
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002', hint = format(
                'select pgq.register_lanes(%L, %L, 8, %L)', i_queue_name, i_consumer_name,
                'extra1');
    elsif r.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
    elsif r.sub_mode is distinct from 'lanes' then
        raise exception 'the consumer %/% has no lanes', i_queue_name, i_consumer_name
            using errcode = 'PQ020', hint = format(
                'while nobody runs it: select pgq.set_lanes(%L, %L, 8, %L)', i_queue_name,
                i_consumer_name, 'extra1');
    elsif r.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, r.sub_detached);
    end if;
    return r;
end $$;
