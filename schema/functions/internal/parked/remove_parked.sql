-- Removes finished events from the parked ones, and makes the next event of each key its head, due
-- now. Events that failed in the batch stay, and so do the events of their keys behind them: they
-- were not handled, whatever the caller says.
--
-- Rows are looked up and deleted one by one, by an index: a plan without statistics would read all
-- parked events of the consumer.
--
-- Parameters: i_owner: the consumer, locked by the caller. i_batch: the batch in which the events
--   were taken; null: none. i_ids: its events that are finished or failed.
-- Writes: delete and update pgq.parked.
create or replace function pgq.remove_parked(i_owner int, i_batch bigint, i_ids bigint[])
returns void language plpgsql set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    r record;
begin
    for r in
        with taken as materialized (
            select e.park_key, e.park_no, e.park_batch
              from (select distinct id from unnest(i_ids) id) ids
             cross join lateral (
                    select * from pgq.parked where ev_owner = i_owner and ev_id = id offset 0) e
        ), failed as materialized (
            select park_key, min(park_no) as no from taken where park_batch = i_batch group by 1
        )
        select park_key, array_agg(park_no) as numbers, max(park_no) as last
          from taken t
         where not exists (
                select from failed f where f.park_key = t.park_key and f.no <= t.park_no)
         group by 1 order by 1
    loop
        for i in 1 .. cardinality(r.numbers) loop
            delete from pgq.parked
             where ev_owner = i_owner and park_key = r.park_key and park_no = r.numbers[i];
        end loop;
        update pgq.parked set park_after = clock_timestamp()
         where ev_owner = i_owner and park_key = r.park_key and park_after is null
           and park_no = (
                select park_no from pgq.parked
                 where ev_owner = i_owner and park_key = r.park_key and park_no > r.last
                 order by park_no limit 1);
    end loop;
end $$;
