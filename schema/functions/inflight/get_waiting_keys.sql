-- The keys of a shared consumer behind whose first events most others wait.
-- Parameters: i_limit: so many keys at most.
-- Returns: key: as in the events. waiting: how many events wait. For the first event of the key in
--   flight: its id, when it was inserted, its state (claimed, delayed, claimable), the attempts of
--   it that began, and when the claim's lease or the delay ends.
-- Raises: PQ002; PQ009 a bad limit; PQ012 as read_events; PQ020 not shared; PQ024 detached.
create or replace function pgq.get_waiting_keys(
    i_queue_name text, i_consumer_name text, i_limit int default 10, out key text,
    out waiting bigint, out first_id bigint, out first_time timestamptz, out first_state text,
    out first_attempts int, out first_due timestamptz)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    s constant pgq.registration := pgq.find_shared(i_queue_name, i_consumer_name);
begin
    if (i_limit >= 1) is not true then
        raise exception 'a limit of % keys', coalesce(i_limit::text, 'null')
            using errcode = 'PQ009', hint = 'name 1 or more';
    end if;
    return query
    select case s.sub_key when 'type' then e.ev_type when 'extra1' then e.ev_extra1
                          when 'extra2' then e.ev_extra2 when 'extra3' then e.ev_extra3
                          else e.ev_extra4 end,
           k.events, e.ev_id, e.ev_time,
           case when i.run_token > 0 then 'claimed' when i.run_token = -1 then 'delayed'
                else 'claimable' end,
           i.run_attempts, coalesce(i.run_due, h.holder_until)
      from (select run_key, sum(cardinality(run_ids)) as events
              from pgq.inflight where run_sub = s.sub_id and run_token = -2
             group by run_key order by 2 desc, run_key limit i_limit) k
     cross join lateral (
            select * from pgq.inflight
             where run_sub = s.sub_id and run_key = k.run_key order by run_ord limit 1) i
      left join pgq.holder h on h.holder_id = i.run_holder and i.run_token > 0
     cross join lateral pgq.read_events(
           s.sub_queue, i.run_ids[:1], i.run_places[:1], array[i.run_table::int]) e
     order by k.events desc, k.run_key;
end $$;
comment on function pgq.get_waiting_keys is 'The keys of a shared consumer with most that waits.';
