-- Makes runs of events that are new for a shared consumer of whose keys several runs may be
-- claimed.
--
-- Each event is a run. Of a key, as many runs have a slot as may be claimed at once: they are
-- claimed or claimable. The others wait (-2), and whoever ends a run gives its slot to the first of
-- them: see pass_slots. Only the holder of the refill's lock gives slots that are free, so no slot
-- is given twice.
--
-- A run with a slot is locked, if its lock is free: its end then waits for this transaction, and
-- sees what waits. What ends meanwhile may miss it: then the other slots go on, and a sweep fills
-- the one that was lost.
-- Parameters, returns: as add_runs.
-- Writes: insert pgq.inflight; key share lock pgq.inflight.
create or replace function pgq.add_slotted(
    s pgq.registration, i_ord bigint, i_ids bigint[], i_places tid[], i_tables int[],
    i_keys bigint[], out runs int, out claimable int)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    perform from pgq.inflight
      where run_sub = s.sub_id and run_slot is not null
        and run_key = any (array(select distinct key from unnest(i_keys) key))
        for key share skip locked;
    with free as materialized (
        select key, array(
                select slot from generate_series(1, s.sub_per_key) slot
                except
                select run_slot from pgq.inflight
                 where run_sub = s.sub_id and run_key = key and run_slot is not null
                 order by 1) as slots
          from (select distinct key from unnest(i_keys) key where key is not null) k),
    made as (
        insert into pgq.inflight (
            run_sub, run_token, run_no, run_key, run_ord, run_slot, run_table, run_ids, run_places)
        select s.sub_id, case when key is null or slot is not null then 0 else -2 end,
               nextval('pgq.run_no_seq'), key, i_ord + n, slot, t, array[id], array[place]
          from (select e.*, slots[row_number() over (partition by e.key order by id)] as slot,
                       row_number() over (order by id) as n
                  from unnest(i_ids, i_places, i_tables, i_keys) e (id, place, t, key)
                  left join free on free.key = e.key order by id) run
        returning run_token)
    select count(*), count(*) filter (where run_token = 0) into runs, claimable from made;
end $$;
