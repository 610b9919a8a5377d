-- Raises the error for a call that does not fit how a consumer runs: see sub_mode.
-- Parameters: i_is: its sub_mode, or how it runs; null: it is a subconsumer.
-- Raises: PQ020, always.
create or replace function pgq.raise_wrong_mode(
    i_queue_name text, i_consumer_name text, i_is text)
returns void language plpgsql as $$
declare
    v_name constant text := i_queue_name || '/' || i_consumer_name;
    v_is constant text := coalesce(i_is, 'subconsumer');
    v_change constant text := format('while nobody runs it: select pgq.set_consumer_mode(%L, %L, ',
        i_queue_name, i_consumer_name);
begin
    raise exception using errcode = 'PQ020',
        message = case v_is
            when 'subconsumer' then v_name || ' is a subconsumer: its consumer has the position'
            when 'lane' then v_name || ' is a lane: its consumer takes its batches'
            else format('the consumer %s ', v_name) || case v_is
                when 'shared' then 'is shared: its workers take its batches'
                when 'inflight' then 'is shared: its events are received'
                when 'lanes' then 'has lanes'
                when 'without lanes' then 'has no lanes'
                else 'is not shared' end end,
        hint = case v_is
            when 'subconsumer' then 'name the consumer; a worker calls take_part'
            when 'lane' then 'name the consumer; a run calls take_lane'
            when 'shared' then 'run it as shared, or, ' || v_change || '''plain'')'
            when 'inflight' then format('select * from pgq.receive(%L, %L)', i_queue_name,
                i_consumer_name)
            when 'lanes' then 'run it with lanes, or change it to one lane (set_lanes), run it '
                'until that is done, stop it, and, ' || v_change || '''plain'')'
            when 'without lanes' then format('run it without, or, while nobody runs it: select '
                'pgq.set_lanes(%L, %L, 8, %L)', i_queue_name, i_consumer_name, 'extra1')
            else 'run it as one process, or, ' || v_change || '''shared'')' end;
end $$;
