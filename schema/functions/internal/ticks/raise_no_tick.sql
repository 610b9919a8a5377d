-- Raises the error of a call that needs the last tick of a queue, where there is none. create_queue
-- inserts the first one. So a restore is going on, and has yet to bring the ticks.
-- Raises: PQ012, always.
create or replace function pgq.raise_no_tick(i_queue_name text)
returns void language plpgsql as $$
begin
    raise exception 'queue % has no tick: a restore of it is not complete', i_queue_name
        using errcode = 'PQ012', hint = 'wait until the restore is complete';
end $$;
