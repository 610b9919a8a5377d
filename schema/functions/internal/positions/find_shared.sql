-- The position of a consumer whose events workers and receivers may take.
-- Raises: PQ002 not a subscriber; PQ020 the consumer is not shared; PQ021 it has a batch open;
--   PQ024 as raise_detached.
create or replace function pgq.find_shared(i_queue_name text, i_consumer_name text)
returns pgq.current_position language plpgsql as $$
declare
    p pgq.current_position;
begin
    select s.* into p
      from pgq.queue q
      join pgq.consumer c on c.co_name = i_consumer_name
      join pgq.current_position s on s.sub_queue = q.queue_id and s.sub_consumer = c.co_id
     where q.queue_name = i_queue_name;
    if not found then
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002', hint = format(
                'select pgq.register_consumer(%L, %L)', i_queue_name, i_consumer_name);
    elsif p.sub_parent is not null or p.sub_mode in ('plain', 'lanes', 'inflight') then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    elsif p.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, p.sub_detached);
    elsif p.pos_batch is not null then
        raise exception 'main consumer has batch open?' using errcode = 'PQ021',
            detail = format('consumer %s/%s, batch %s', i_queue_name, i_consumer_name,
                p.pos_batch),
            hint = 'finish it; then only workers and receivers take events';
    end if;
    return p;
end $$;
