-- Gives events of a claim runs of their own, so that one statement can change them. Their order
-- stays.
-- Parameters: i_ids: events of the claim, or of others: those are passed over.
-- Writes: insert, delete pgq.inflight.
create or replace function pgq.split_runs(i_sub int, i_token bigint, i_ids bigint[])
returns void language plpgsql as $$
begin
    with whole as (
        delete from pgq.inflight
         where run_sub = i_sub and run_token = i_token and i_token > 0
           and run_ids && i_ids and not run_ids <@ i_ids
        returning *)
    insert into pgq.inflight (
        run_sub, run_token, run_no, run_due, run_key, run_ord, run_table, run_attempts, run_took,
        run_claimed, run_part, run_crashes, run_holder, run_slot, run_ids, run_places)
    select run_sub, run_token, nextval('pgq.run_no_seq'), run_due, run_key, run_ord + min(n) - 1,
           run_table, run_attempts, run_took, run_claimed, run_part, run_crashes, run_holder,
           run_slot, array_agg(id order by n), array_agg(place order by n)
      from (select *, n - row_number() over (
                          partition by run_no, id = any (i_ids) order by n) as part
              from whole cross join unnest(run_ids, run_places) with ordinality e (id, place, n)) e
     group by run_sub, run_token, run_no, run_due, run_key, run_ord, run_table, run_attempts,
           run_took, run_claimed, run_part, run_crashes, run_holder, run_slot, id = any (i_ids),
           part;
end $$;
