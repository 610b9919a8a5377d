-- Frees the keys of events that nobody gets. A locked key is left: a session takes it anew, or
-- deletes it. A wait for it would hold up the consumers that the caller has locked.
-- Writes: delete pgq.dedup_key.
create or replace function pgq.free_dedup_keys(i_queue_name text, i_ids bigint[])
returns void language plpgsql as $$
declare
    v_queue constant int := (pgq.find_queue(i_queue_name)).queue_id;
begin
    delete from pgq.dedup_key
     where ctid = any (array(
            select ctid from pgq.dedup_key
             where dedup_ev_id = any (i_ids) and dedup_queue + 0 = v_queue
               for update skip locked));
end $$;
