-- Copies the events in flight that are in an event table, before it is truncated. It locks no row:
-- a handler that has locked its runs may wait for the table. A rotation calls it twice: without a
-- lock of the table, for the bulk, and with it, for what came in between.
--
-- A consumer whose position sees the table has no event of it to come: so none is missed. An
-- uncommitted refill that read the table has locked it.
-- Writes: insert pgq.inflight_copy.
create or replace function pgq.copy_inflight(i_queue_id int, i_table int)
returns void language plpgsql as $$
begin
    execute format($sql$
        insert into pgq.inflight_copy
        select %1$L::int, %2$L::int, x.place, e.*
          from (select distinct x.id, x.place
                  from pgq.registration
                  join pgq.inflight on run_sub = sub_id and run_table = %2$L
                 cross join unnest(run_ids, run_places) x (id, place)
                 where sub_queue = %1$L and not exists (
                        select from pgq.inflight_copy
                         where copy_queue = %1$L and ev_id = x.id and copy_table = %2$L
                           and copy_place = x.place)) x
          join pgq.%3$I e on e.ctid = x.place and e.ev_id = x.id
        on conflict do nothing$sql$, i_queue_id, i_table, pgq.event_table(i_queue_id, i_table));
end $$;
