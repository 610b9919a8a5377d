-- Lets the first run of a key go on that nobody promoted: of two transactions, one ended the run
-- before it, and the other changed it. And forgets the last run of keys that have none. The caller
-- holds the lock of the refill, so no refill adds a run meanwhile.
-- Returns: whether there was one to promote.
-- Writes: update pgq.inflight; delete pgq.last_run.
create or replace function pgq.sweep_keys(s pgq.registration)
returns boolean language plpgsql as $$
declare
    v_promoted int;
begin
    if s.sub_key is null then
        return false;
    end if;
    select pgq.promote(s.sub_id, array_agg(run_key), null) into v_promoted
      from (select distinct run_key from pgq.inflight
             where run_sub = s.sub_id and run_token = -2) i;
    delete from pgq.last_run
     where ctid = any (array(
            select ctid from pgq.last_run l
             where last_sub = s.sub_id and not exists (
                    select from pgq.inflight
                     where run_sub = s.sub_id and run_key = l.last_key)
             limit 10000));
    return v_promoted > 0;
end $$;
