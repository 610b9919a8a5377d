-- Counts the events of a claim against the rate of the consumer. The caller has the lock of
-- claim_limit.
-- Writes: insert, delete pgq.claim_rate.
create or replace function pgq.count_claim(s pgq.registration, i_events int)
returns void language plpgsql as $$
declare
    v_no constant bigint := 1 + coalesce((
        select rate_no from pgq.claim_rate where rate_sub = s.sub_id
         order by rate_no desc limit 1), 0);
begin
    if s.sub_rate is not null then
        insert into pgq.claim_rate (rate_sub, rate_no, rate_left)
        values (s.sub_id, v_no, pgq.rate_left(s) - i_events);
        delete from pgq.claim_rate where rate_sub = s.sub_id and rate_no = v_no - 50;
    end if;
end $$;
