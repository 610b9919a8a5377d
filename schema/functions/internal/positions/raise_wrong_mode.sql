-- Raises the error for a call that does not fit how a consumer runs: see sub_mode.
-- Parameters: i_is: what the registration is.
-- Raises: PQ020, always.
create or replace function pgq.raise_wrong_mode(
    i_queue_name text, i_consumer_name text, i_is text)
returns void language plpgsql as $$
begin
    raise exception using errcode = 'PQ020',
        message = case i_is
            when 'subconsumer' then
                format('%s/%s is a subconsumer: its consumer has the position', i_queue_name,
                    i_consumer_name)
            when 'lane' then
                format('%s/%s is a lane: its consumer takes its batches', i_queue_name,
                    i_consumer_name)
            when 'shared' then
                format('the consumer %s/%s is shared: its workers take its batches', i_queue_name,
                    i_consumer_name)
            when 'lanes' then
                format('the consumer %s/%s has lanes', i_queue_name, i_consumer_name)
            when 'without lanes' then
                format('the consumer %s/%s has no lanes', i_queue_name, i_consumer_name)
            else format('the consumer %s/%s is not shared', i_queue_name, i_consumer_name) end,
        hint = case i_is
            when 'subconsumer' then 'name the consumer; a worker calls take_part'
            when 'lane' then 'name the consumer; a run calls take_lane'
            when 'shared' then format('run it as shared, or, while nobody runs it: select '
                'pgq.set_consumer_mode(%L, %L, %L)', i_queue_name, i_consumer_name, 'plain')
            when 'lanes' then format('run it with lanes, or change it to one lane (set_lanes), run '
                'it until that is done, stop it, and: select pgq.set_consumer_mode(%L, %L, %L)',
                i_queue_name, i_consumer_name, 'plain')
            when 'without lanes' then format('run it without, or, while nobody runs it: select '
                'pgq.set_lanes(%L, %L, 8, %L)', i_queue_name, i_consumer_name, 'extra1')
            else format('run it as one process, or, while nobody runs it: select '
                'pgq.set_consumer_mode(%L, %L, %L)', i_queue_name, i_consumer_name, 'shared') end;
end $$;
