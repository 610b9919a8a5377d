-- Deletes the parked events of a consumer that moves to a tick which does not see them: they come
-- again in its batches, and would be handled twice. Events of their keys that stay are handled
-- before them. If a key loses its head, the next event is due now.
-- Parameters: i_owner: the consumer, locked by the caller.
-- Writes: delete and update pgq.parked.
create or replace function pgq.forget_parked(i_owner int, i_queue_id int, i_tick bigint)
returns void language plpgsql as $$
begin
    delete from pgq.parked
     where ev_owner = i_owner and not txid_visible_in_snapshot(ev_txid, (
            select tick_snapshot from pgq.tick
             where tick_queue = i_queue_id and tick_id = i_tick));
    if not found then
        return;
    end if;
    update pgq.parked p set park_after = clock_timestamp()
     where ev_owner = i_owner and park_after is null and not exists (
            select from pgq.parked
             where ev_owner = i_owner and park_key = p.park_key and park_no < p.park_no);
end $$;
