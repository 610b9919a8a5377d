-- Cancels events: hides them from each consumer that has not had them, and removes the copies that
-- wait for it in the retry queue. Open batches do not change (G3), nor do ranges of
-- ticks. While an open batch has an event, its copies stay too. Dead events stay. An event that no
-- consumer gets frees its key (insert_event_once).
--
-- It is part of the caller's transaction. Until that ends, the queue's consumers cannot open or
-- finish a batch. The call waits for a session that does so just now.
-- Returns: for each event and consumer: cancelled: the consumer does not get it; delivered: the
--   consumer has had it, or has it in its open batch; by ticks: the consumer reads ranges of
--   ticks, which have it; unknown: the queue has no such event for it.
-- Raises: PQ001; PQ009 a NULL; PQ012, PQ013, 55P03 as hide_events.
-- Writes: as hide_events; delete pgq.dedup_key.
create or replace function pgq.cancel_event(
    i_queue_name text, i_event_ids bigint[], out ev_id bigint, out consumer_name text,
    out state text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_cancelled bigint[];
    v_others bigint[];
begin
    for ev_id, consumer_name, state in
        select * from pgq.hide_events(i_queue_name, null, i_event_ids)
    loop
        if state = 'cancelled' then
            v_cancelled := v_cancelled || ev_id;
        else
            v_others := v_others || ev_id;
        end if;
        return next;
    end loop;
    -- A locked key is left: a session takes it anew, or deletes it. A wait for it would hold up the
    -- consumers that are locked now.
    delete from pgq.dedup_key
     where ctid = any (array(
            select ctid from pgq.dedup_key
             where dedup_queue + 0 = (
                    select queue_id from pgq.queue where queue_name = i_queue_name)
               and dedup_ev_id = any (array(
                    select unnest(v_cancelled) except select unnest(v_others)))
               for update skip locked));
end $$;
comment on function pgq.cancel_event is 'Hides events from consumers that have not had them.';
