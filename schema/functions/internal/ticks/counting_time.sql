-- The time of the first tick that counts an event: whose event sequence has reached the event's id.
-- The sequence never falls from tick to tick. So the search halves the range of tick ids; an idle
-- queue has a tick a minute, and reading all of them costs a thousand queues seconds. The last
-- tick's id may be the largest bigint, so the search never computes i_last + 1.
-- Parameters: i_first, i_last: the ticks to search, both included; i_last may be missing.
-- Returns: null: no tick counts it yet.
-- Writes: nothing.
create or replace function pgq.counting_time(
    i_queue_id int, i_event_id bigint, i_first bigint, i_last bigint)
returns timestamptz language plpgsql as $$
declare
    v_low bigint := i_first;  -- no tick below it counts the event
    v_high bigint := i_last;
    v_half bigint;
    v_seq bigint;
begin
    while v_low < v_high loop
        v_half := v_low + (v_high - v_low) / 2;
        select tick_event_seq into v_seq from pgq.tick
         where tick_queue = i_queue_id and tick_id >= v_half order by tick_id limit 1;
        if v_seq < i_event_id then
            v_low := v_half + 1;
        else
            v_high := v_half;
        end if;
    end loop;
    return (select tick_time from (
                select * from pgq.tick
                 where tick_queue = i_queue_id and tick_id >= v_low order by tick_id limit 1) found
             where tick_event_seq >= i_event_id);
end $$;
