-- Makes runs of events that are new for a shared consumer.
--
-- With an order, a run has one key, and waits (-2) if an earlier run of the key is there: its end
-- promotes it. Handlers end runs in transactions that may take long. So the last run of the key is
-- locked, if its lock is free: then the handler's done waits for this transaction, sees the new
-- run, and promotes it. If another session has the lock, it may be ending the run, and not see the
-- new one: that is fresh, and a claim looks whether the runs before it are left (run_behind). If
-- the last run is gone, the new one is the key's first.
-- Of one key, runs are longer from the 33rd event on: nobody can have them soon.
-- Parameters: arrays, whose elements with the same index belong to one event. i_keys: null elements
--   have no order. i_ord: less than that of later calls, by the number of events. i_size: the most
--   events of a run.
-- Returns: how many runs, and of how many events those that may be claimed at once.
-- Writes: insert pgq.inflight, pgq.last_run; update pgq.last_run; key share lock pgq.inflight.
create or replace function pgq.add_runs(
    s pgq.registration, i_ord bigint, i_size int, i_ids bigint[], i_places tid[],
    i_tables int[], i_keys bigint[], out runs int, out claimable int)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if s.sub_key is null then
        insert into pgq.inflight (
            run_sub, run_token, run_no, run_ord, run_table, run_ids, run_places)
        select s.sub_id, 0, nextval('pgq.run_no_seq'), i_ord + first, t, ids, places
          from (select min(n) as first, t, array_agg(id order by id) as ids,
                       array_agg(place order by id) as places
                  from (select *, row_number() over (order by id) as n, (row_number() over (
                               partition by t order by id) - 1) / i_size as no
                          from unnest(i_ids, i_places, i_tables) e (id, place, t)) e
                 group by t, no order by 1) run;
        get diagnostics runs = row_count;
        claimable := cardinality(i_ids);
        return;
    elsif s.sub_per_key > 1 then
        select a.runs, a.claimable into runs, claimable
          from pgq.add_slotted(s, i_ord, i_ids, i_places, i_tables, i_keys) a;
        return;
    end if;
    with run as materialized (
        select key, no, t, i_ord + min(n) as ord, array_agg(id order by n) as ids,
               array_agg(place order by n) as places
          from (select *, sum(case when same_table and (nth - 1) % size > 0 then 0 else 1 end)
                          over w as no
                  from (select *, row_number() over (order by id) as n, row_number() over w as nth,
                               t = lag(t) over w as same_table, case
                               when row_number() over w > 32 then 32 else i_size end as size
                          from unnest(i_ids, i_places, i_tables, i_keys) e (id, place, t, key)
                        window w as (partition by key order by id)) e
                window w as (partition by key order by n)) e
         group by key, no, t),
    known as materialized (
        select k.key, k.ord, l.place, l.last_ord, r.place is not null as is_there, h.is_held
          from (select key, max(ord) as ord from run where key is not null group by key) k
          left join lateral (
                select ctid as place, last_ord from pgq.last_run
                 where last_sub = s.sub_id and last_key = k.key
                 order by last_ord desc limit 1) l on true
          left join lateral (
                select ctid as place from pgq.inflight
                 where run_sub = s.sub_id and run_key = k.key and run_ord >= l.last_ord
                 order by run_ord desc limit 1) r on true
          left join lateral (
                select true as is_held from pgq.inflight i
                 where i.ctid = r.place for key share skip locked) h on true),
    updated as (
        update pgq.last_run set last_ord = k.ord from known k where last_run.ctid = k.place),
    inserted as (
        insert into pgq.last_run select s.sub_id, key, ord from known where place is null),
    made as (
        insert into pgq.inflight (
            run_sub, run_token, run_no, run_key, run_ord, run_behind, run_table, run_ids,
            run_places)
        select s.sub_id, state, nextval('pgq.run_no_seq'), key, ord, behind, t, ids, places
          from (select r.*,
                       case when r.key is not null and (r.no > 1 or k.is_held) then -2 else 0 end
                           as state,
                       case when r.no = 1 and k.is_there and k.is_held is null then k.last_ord end
                           as behind
                  from run r left join known k on k.key = r.key
                 order by r.ord) run
        returning run_token, run_ids)
    select count(*), coalesce(sum(cardinality(run_ids)) filter (where run_token = 0), 0)
      into runs, claimable from made;
end $$;
