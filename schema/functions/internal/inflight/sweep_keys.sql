-- Promotes the first run of a key that nobody promoted: one transaction ended the run before it
-- while another changed it, or a slot was lost: see add_slotted. Also deletes the rows of last_run
-- whose key has no run. The caller holds the refill's lock, so no refill adds a run meanwhile.
-- Returns: whether there was one to promote.
-- Writes: as promote, fill_slots; delete pgq.last_run.
create or replace function pgq.sweep_keys(s pgq.registration)
returns boolean language plpgsql as $$
declare
    v_promoted int;
    v_keys bigint[];
begin
    if s.sub_key is null then
        return false;
    end if;
    select array_agg(distinct run_key) into v_keys
      from pgq.inflight where run_sub = s.sub_id and run_token = -2;
    v_promoted := case when s.sub_per_key > 1 then pgq.fill_slots(s, v_keys)
                       else pgq.promote(s.sub_id, v_keys, null) end;
    delete from pgq.last_run
     where ctid = any (array(
            select ctid from pgq.last_run l
             where last_sub = s.sub_id and not exists (
                    select from pgq.inflight
                     where run_sub = s.sub_id and run_key = l.last_key)
             limit 10000));
    return v_promoted > 0;
end $$;
