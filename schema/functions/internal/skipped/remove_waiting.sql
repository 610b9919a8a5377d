-- Removes the copies of events that wait for a consumer in the retry queue. Copies of events that
-- an open batch has stay: a handler may have the event just now, and a batch that is delivered
-- again has it.
-- Parameters: i_owner: the consumer, locked by the caller. i_open: what find_open_ids found, before
--   this call: a session may finish an event and retry it meanwhile.
-- Returns: removed: the ids of what is gone; held: those of i_open, and of dead events.
-- Writes: delete pgq.retry_queue.
create or replace function pgq.remove_waiting(
    i_owner int, i_ids bigint[], i_open bigint[], out removed bigint[], out held bigint[])
language plpgsql as $$
begin
    with gone as (
        delete from pgq.retry_queue
         where ev_owner = i_owner and ev_id = any (i_ids) and ev_id <> all (i_open)
        returning ev_id)
    select array_agg(ev_id) into removed from gone;
    held := i_open || array(
        select ev_id from pgq.dead_event where ev_owner = i_owner and ev_id = any (i_ids));
end $$;
