-- Raises the error for a call that does not fit how a consumer runs: see sub_mode.
-- Parameters: i_is: its sub_mode; null: it is a subconsumer.
-- Raises: PQ020, always.
create or replace function pgq.raise_wrong_mode(
    i_queue_name text, i_consumer_name text, i_is text)
returns void language plpgsql as $$
declare
    v_name constant text := i_queue_name || '/' || i_consumer_name;
begin
    raise exception using errcode = 'PQ020',
        message = case i_is
            when 'shared' then format('the consumer %s is shared: its events are received', v_name)
            when 'plain' then format('the consumer %s is not shared', v_name)
            else v_name || ' is a subconsumer: its consumer has the position' end,
        hint = case i_is
            when 'shared' then format('select * from pgq.receive(%L, %L)', i_queue_name,
                i_consumer_name)
            when 'plain' then format('run it as one process, or, while nobody runs it: pgqpy '
                'consumer set %s %s mode=shared, or select '
                'pgq.set_consumer_mode(%L, %L, ''shared'')', i_queue_name, i_consumer_name,
                i_queue_name, i_consumer_name)
            else 'name the consumer' end;
end $$;
