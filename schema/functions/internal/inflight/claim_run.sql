-- Claims one run, the quick way: one that was returned or promoted, else a fresh one, and only if
-- it has about as many events as asked for, and not more.
--
-- SKIP LOCKED may lock a version of a row that the statement's snapshot does not see; then the
-- update changes nothing, and what is returned is what was changed.
-- Returns: the claimed run as it is now; null: there was none.
-- Writes: update pgq.inflight.
create or replace function pgq.claim_run(
    i_sub int, f pgq.front, i_limit int, i_lease interval, i_holder int)
returns pgq.inflight language plpgsql as $$
declare
    r pgq.inflight;
begin
    update pgq.inflight i
       set run_token = pgq.new_token(), run_attempts = run_attempts + 1,
           run_took = cardinality(run_ids), run_claimed = clock_timestamp(),
           run_holder = i_holder,
           run_due = case when i_holder is null then clock_timestamp() + i_lease end
     where ctid = coalesce((
            select ctid from pgq.inflight
             where run_sub = i_sub and run_token = -3 and run_no >= f.front_back
             order by run_no limit 1 for update skip locked), (
            select ctid from pgq.inflight c
             where run_sub = i_sub and run_token = 0 and run_no >= f.front_low
               and (run_behind is null or not exists (
                    select from pgq.inflight
                     where run_sub = i_sub and run_key = c.run_key and run_ord >= c.run_behind
                       and run_ord < c.run_ord))
             order by run_no limit 1 for update skip locked))
       and cardinality(run_ids) between i_limit / 2 and least(i_limit, run_part)
     returning i.* into r;
    return r;
end $$;
