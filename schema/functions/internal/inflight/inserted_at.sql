-- When an event in flight was inserted; null: it is not where its run says, as before a repair, or
-- its table is locked. For lists of all queues: see read_sequence.
-- Raises: 40P01.
create or replace function pgq.inserted_at(i_queue_id int, r pgq.inflight)
returns timestamptz language plpgsql set lock_timeout = '100ms' as $$
declare
    v_time timestamptz;
begin
    execute format('select ev_time from pgq.%I where ctid = $1 and ev_id = $2',
        pgq.event_table(i_queue_id, r.run_table)) into v_time using r.run_places[1], r.run_ids[1];
    return coalesce(v_time, (
        select ev_time from pgq.inflight_copy
         where copy_queue = i_queue_id and ev_id = r.run_ids[1] and copy_table = r.run_table
           and copy_place = r.run_places[1]));
exception
    when deadlock_detected then
        raise;
    when others then
        return null;
end $$;
