-- Removes the copies of events that wait for a consumer: in the retry queue, and parked. If a key
-- loses its first parked event, the next one is due now. Copies of events that an open batch has
-- stay: a handler may have the event just now, and a batch that is delivered again has it.
-- Parameters: i_owner: the consumer, locked by the caller, with its lanes. i_open: what
--   find_open_ids found, before this call: a worker may finish an event and retry it meanwhile.
-- Returns: removed: the ids of what is gone; held: those of i_open, and of dead events.
-- Writes: delete pgq.retry_queue; delete and update pgq.parked.
create or replace function pgq.remove_waiting(
    i_owner int, i_ids bigint[], i_open bigint[], out removed bigint[], out held bigint[])
language plpgsql as $$
declare
    v_retried bigint[];
    v_key text;
    v_keys text[];
begin
    with gone as (
        delete from pgq.retry_queue
         where ev_owner = i_owner and ev_id = any (i_ids) and ev_id <> all (i_open)
        returning ev_id)
    select array_agg(ev_id) into v_retried from gone;
    held := i_open || array(
        select ev_id from pgq.dead_event where ev_owner = i_owner and ev_id = any (i_ids));
    if exists (select from pgq.parked where ev_owner = i_owner and ev_id = any (i_ids)) then
        with gone as (
            delete from pgq.parked
             where ev_owner = i_owner and ev_id = any (i_ids) and ev_id <> all (held)
            returning ev_id, park_key)
        select array_agg(ev_id), array_agg(distinct park_key) into removed, v_keys from gone;
        foreach v_key in array coalesce(v_keys, '{}') loop
            update pgq.parked set park_after = clock_timestamp()
             where ev_owner = i_owner and park_key = v_key and park_after is null
               and park_no = (
                    select park_no from pgq.parked
                     where ev_owner = i_owner and park_key = v_key order by park_no limit 1);
        end loop;
    end if;
    removed := v_retried || removed;
end $$;
