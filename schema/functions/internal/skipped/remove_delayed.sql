-- Removes delayed events, which no consumer has had. A row that move_delayed_events is moving
-- meanwhile is waited for, and not removed: it is in an event table then.
-- Returns: the ids of what is gone.
-- Writes: delete pgq.delayed_event.
create or replace function pgq.remove_delayed(i_queue_id int, i_ids bigint[])
returns bigint[] language plpgsql as $$
declare
    v_removed bigint[];
begin
    with gone as (
        delete from pgq.delayed_event where ev_queue = i_queue_id and ev_id = any (i_ids)
        returning ev_id)
    select array_agg(ev_id) into v_removed from gone;
    return coalesce(v_removed, '{}');
end $$;
