-- Checks that a consumer takes the events that a worker asks for. An idle worker with a lease holds
-- nothing, so set_consumer_filter cannot know of it: the worker finds out at its next poll.
-- Parameters: p: the consumer. i_filter: what the worker asks for: see check_filter.
-- Raises: PQ021 the consumer takes others; PQ009 as check_filter.
create or replace function pgq.check_asked_filter(p pgq.current_position, i_filter jsonb)
returns void language plpgsql as $$
declare
    c_longest constant int := 500;
    c_all constant text := 'all events';
    v_asked constant jsonb := pgq.check_filter(i_filter);
begin
    if v_asked is distinct from p.sub_filter then
        raise exception 'the consumer %/% does not take the events that this worker asks for',
            (select queue_name from pgq.queue where queue_id = p.sub_queue),
            (select co_name from pgq.consumer where co_id = p.sub_consumer)
            using errcode = 'PQ021', detail = format('it takes %s, the worker asks for %s',
                left(coalesce(p.sub_filter::text, c_all), c_longest),
                left(coalesce(v_asked::text, c_all), c_longest)),
            hint = 'all programs that run a consumer have the same filter; to change it, use '
                'pgq.set_consumer_filter, or pgqpy consumer register --type';
    end if;
end $$;
