-- How many events a consumer with a rate may claim now; null: it has no rate. After the clock was
-- stepped back, a second's worth is there.
create or replace function pgq.rate_left(s pgq.registration)
returns double precision language sql as $$
    select least(greatest(s.sub_rate, 1), coalesce((
            select case when rate_time <= clock_timestamp() then rate_left + s.sub_rate
                       * extract(epoch from clock_timestamp() - rate_time)::double precision end
              from pgq.claim_rate where rate_sub = s.sub_id order by rate_no desc limit 1),
            'infinity'))
     where s.sub_rate is not null
$$;
