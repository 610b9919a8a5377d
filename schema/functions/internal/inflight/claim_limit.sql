-- How many events a claim of a consumer with limits may have. Until its transaction ends, no other
-- claim of this consumer begins: so what it counted stays true. The count is a statement after the
-- lock, and sees what those claimed that had the lock before.
--
-- The rate is a bucket: what a second allows, one event at least, is there at once.
-- Returns: at most i_limit; 0: none.
-- Writes: advisory lock.
create or replace function pgq.claim_limit(s pgq.registration, i_limit int)
returns int language plpgsql as $$
begin
    perform pg_advisory_xact_lock(pgq.lock_number('claim'), s.sub_id);
    return greatest(0, least(i_limit, floor(pgq.rate_left(s)), s.sub_limit - (
        select coalesce(sum(cardinality(run_ids)), 0) from pgq.inflight
         where s.sub_limit is not null and run_sub = s.sub_id and run_token > 0)));
end $$;
