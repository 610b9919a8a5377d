-- Lets another number of events of a key be claimed at once. Runs in flight go on as they are:
-- the end of a run of a chain promotes the next, the end of a run with a slot gives it on. Only
-- last_run is changed: by it, a refill lets new runs of a chain wait behind the last of their key.
-- Writes: advisory lock; delete, insert pgq.last_run.
create or replace function pgq.change_per_key(s pgq.registration, i_per_key int)
returns void language plpgsql as $$
begin
    if i_per_key = s.sub_per_key then
        return;
    end if;
    perform pg_advisory_xact_lock(pgq.lock_number('refill'), s.sub_id);
    delete from pgq.last_run where last_sub = s.sub_id;
    insert into pgq.last_run
    select s.sub_id, run_key, max(run_ord) from pgq.inflight
     where i_per_key = 1 and run_sub = s.sub_id and run_key is not null group by run_key;
end $$;
