-- Claims runs with i_limit events together: those that were returned or promoted, then fresh ones.
-- Of the last run, what is over the limit stays, as a run of its own. What is split off is inserted
-- as it was changed, not as it was locked: see claim_run.
--
-- Suspects (run_part) are claimed alone, and in parts: see sweep_runs.
-- Returns: of each event its id, its place, its table and how often it was claimed; null: none.
--   suspect: they are.
-- Writes: update, insert pgq.inflight.
create or replace function pgq.claim_runs(
    i_sub int, f pgq.front, i_token bigint, i_limit int, i_lease interval, i_holder int,
    out ids bigint[], out places tid[], out tables int[], out attempts int[],
    out suspect boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    -- Runs are about as long as the next one: receivers ask for more, or for less, than before.
    v_size constant int := least(f.front_run, (
        select cardinality(run_ids) from pgq.inflight
         where run_sub = i_sub and run_token = 0 and run_no >= f.front_low
         order by run_no limit 1));
    v_runs constant int := (i_limit + v_size - 1) / v_size;
    v_due constant timestamptz :=
        case when i_holder is null then clock_timestamp() + i_lease end;
begin
    with candidate as materialized (
        select *, sum(cardinality(run_ids)) over (rows unbounded preceding)
                  - cardinality(run_ids) as before
          from (select * from (
                    select ctid as place, * from pgq.inflight
                     where run_sub = i_sub and run_token = -3 and run_no >= f.front_back
                     order by run_no limit i_limit for update skip locked) returned
                union all
                select * from (
                    select ctid, * from pgq.inflight c
                     where run_sub = i_sub and run_token = 0 and run_no >= f.front_low
                       and (run_behind is null or not exists (
                            select from pgq.inflight
                             where run_sub = i_sub and run_key = c.run_key
                               and run_ord >= c.run_behind and run_ord < c.run_ord))
                     order by run_no limit v_runs for update skip locked) fresh) both_kinds),
    asked as (
        select *, cardinality(run_ids) as size, first_value(run_part) over w as first_part,
               least(i_limit, first_value(run_part) over w) as most
          from candidate window w as (rows unbounded preceding)),
    chosen as (
        select *, least(size, most - before)::int as cut,
               sum(least(size, most - before)) over ()::int as total
          from asked where before < most and (run_part is null) = (first_part is null)),
    whole as (
        update pgq.inflight i
           set run_token = i_token, run_due = v_due, run_attempts = i.run_attempts + 1,
               run_took = c.total, run_claimed = clock_timestamp(), run_holder = i_holder
          from chosen c where i.ctid = c.place and c.cut = c.size
        returning i.*),
    rest as (
        update pgq.inflight i
           set run_ids = i.run_ids[c.cut + 1:], run_places = i.run_places[c.cut + 1:],
               run_ord = i.run_ord + c.cut, run_behind = null,
               run_token = case when i.run_key is null then i.run_token else -2 end
          from chosen c where i.ctid = c.place and c.cut < c.size
        returning c.*),
    split as (
        insert into pgq.inflight (
            run_sub, run_token, run_no, run_due, run_key, run_ord, run_table, run_attempts,
            run_took, run_claimed, run_part, run_crashes, run_holder, run_ids, run_places)
        select i_sub, i_token, nextval('pgq.run_no_seq'), v_due, run_key, run_ord, run_table,
               run_attempts + 1, total, clock_timestamp(), run_part, run_crashes, i_holder,
               run_ids[:cut], run_places[:cut]
          from rest
        returning *)
    select array_agg(e.id order by c.run_ord, n), array_agg(e.place order by c.run_ord, n),
           array_agg(c.run_table order by c.run_ord, n),
           array_agg(c.run_attempts order by c.run_ord, n), bool_or(c.run_part is not null)
      into ids, places, tables, attempts, suspect
      from (select * from whole union all select * from split) c
     cross join unnest(c.run_ids, c.run_places) with ordinality e (id, place, n);
end $$;
