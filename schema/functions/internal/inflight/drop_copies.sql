-- Deletes copies of events that no consumer of the queue has in flight any more.
-- Writes: delete pgq.inflight_copy.
create or replace function pgq.drop_copies(i_queue_id int) returns void language plpgsql as $$
begin
    delete from pgq.inflight_copy
     where copy_queue = i_queue_id and (ev_id, copy_table, copy_place) not in (
            select x.id, run_table, x.place
              from pgq.registration
              join pgq.inflight on run_sub = sub_id
             cross join unnest(run_ids, run_places) x (id, place)
             where sub_queue = i_queue_id);
end $$;
