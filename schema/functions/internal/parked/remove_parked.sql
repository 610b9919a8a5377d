-- Removes finished events from the parked ones, and makes the next event of each key its head, due
-- now. Events that failed in the batch stay, and so do the events of their keys behind them: they
-- were not handled, whatever the caller says.
--
-- Parameters: i_owner: the consumer, locked by the caller. i_batch: the batch in which the events
--   were taken; null: none. i_ids: its events that are finished or failed.
-- Writes: delete and update pgq.parked.
create or replace function pgq.remove_parked(i_owner int, i_batch bigint, i_ids bigint[])
returns void language plpgsql set enable_seqscan = off as $$
declare
    v_keys text[];
    v_last bigint[];
begin
    with failed as materialized (
        select park_key, min(park_no) as no from pgq.parked
         where ev_owner = i_owner and ev_id = any (i_ids) and park_batch = i_batch group by 1
    ), gone as (
        delete from pgq.parked p
         where ev_owner = i_owner and ev_id = any (i_ids) and not exists (
                select from failed f where f.park_key = p.park_key and f.no <= p.park_no)
        returning park_key, park_no
    ), keys as (
        select park_key, max(park_no) as last from gone group by 1
    )
    select array_agg(park_key), array_agg(last) into v_keys, v_last from keys;
    update pgq.parked p set park_after = clock_timestamp()
      from unnest(v_keys, v_last) k (key, last)
     cross join lateral (
            select park_no from pgq.parked
             where ev_owner = i_owner and park_key = k.key and park_no > k.last
             order by park_no limit 1) n
     where p.ev_owner = i_owner and p.park_key = k.key and p.park_no = n.park_no
       and p.park_after is null;
end $$;
