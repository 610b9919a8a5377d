-- Removes finished events from the parked ones. If a key loses its head, the first event that is
-- left is due now. A caller may finish events in any order, so that event may stand before some of
-- the finished ones. Events that failed in the batch stay, and so do the events of their keys
-- behind them: they were not handled, whatever the caller says.
--
-- Rows are looked up and deleted one by one, by an index: a plan without statistics would read all
-- parked events of the consumer. The search for the next head begins at the removed one. From the
-- beginning of the key it would read all dead rows that vacuum has not removed yet.
-- Parameters: i_owner: the consumer, locked by the caller. i_batch: the batch in which the events
--   were taken; null: none. i_ids: its events that are finished or failed.
-- Writes: delete and update pgq.parked.
create or replace function pgq.remove_parked(i_owner int, i_batch bigint, i_ids bigint[])
returns void language plpgsql as $$
declare
    r record;
begin
    for r in
        with taken as materialized (
            select e.park_key, e.park_no, e.park_batch, e.park_after, e.park_error
              from (select distinct id from unnest(i_ids) id) ids
             cross join lateral (
                    select * from pgq.parked where ev_owner = i_owner and ev_id = id offset 0) e
        ), failed as materialized (
            select park_key, min(park_no) as no from taken where park_batch = i_batch group by 1
        )
        select park_key, array_agg(park_no order by park_no) as numbers,
               (array_agg(park_after order by park_no))[1] as due,
               (array_agg(park_error order by park_no))[1] as error
          from taken t
         where not exists (
                select from failed f where f.park_key = t.park_key and f.no <= t.park_no)
         group by 1 order by 1
    loop
        for i in 1 .. cardinality(r.numbers) loop
            delete from pgq.parked
             where ev_owner = i_owner and park_key = r.park_key and park_no = r.numbers[i];
        end loop;
        -- A head has a time, and so has a failed event behind it. Only after a head is another due.
        continue when r.due is null or r.error is not null and exists (
            select from pgq.parked
             where ev_owner = i_owner and park_key = r.park_key and park_no < r.numbers[1]);
        update pgq.parked set park_after = clock_timestamp()
         where ev_owner = i_owner and park_key = r.park_key and park_after is null
           and park_no = (
                select park_no from pgq.parked
                 where ev_owner = i_owner and park_key = r.park_key and park_no > r.numbers[1]
                 order by park_no limit 1);
    end loop;
end $$;
