-- Deletes claimed events: they are done. The next runs of their keys go on.
-- Parameters: i_ids: null: all of the claim.
-- Returns: how many. Fewer than were named: the others are not of this claim, or its lease ended.
-- Writes: delete, update pgq.inflight; as promote, pass_slots.
create or replace function pgq.end_runs(i_sub int, i_token bigint, i_ids bigint[])
returns int language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_key bigint;
    v_ord bigint;
    v_keys bigint[];
    v_ords bigint[];
    v_slot int;
    v_slots int[];
    v_ended int := 0;
begin
    if (i_token > 0) is not true then
        return 0;
    elsif cardinality(i_ids) = 1 then  -- most often; it takes a third of the time
        delete from pgq.inflight
         where run_sub = i_sub and run_token = i_token and run_ids = i_ids
        returning run_key, run_ord, run_slot into v_key, v_ord, v_slot;
        if found and v_slot is not null then
            perform pgq.pass_slots(i_sub, array[v_key], array[v_slot]);
            return 1;
        elsif found then
            perform pgq.promote(i_sub, array[v_key], array[v_ord]) where v_key is not null;
            return 1;
        end if;
    end if;
    for v_round in 1 .. 10 loop
        with ended as (
            delete from pgq.inflight
             where run_sub = i_sub and run_token = i_token
               and (i_ids is null or run_ids = i_ids or run_ids <@ i_ids)
            returning cardinality(run_ids) as count, run_key, run_ord, run_slot)
        select v_ended + coalesce(sum(count), 0),
               v_keys || array_agg(run_key) filter (where run_key is not null),
               v_ords || array_agg(run_ord) filter (where run_key is not null),
               v_slots || array_agg(run_slot) filter (where run_key is not null)
          into v_ended, v_keys, v_ords, v_slots from ended;
        exit when i_ids is null or v_ended >= cardinality(i_ids);
        -- Some are parts of runs. Other sessions may end or return other parts, and make new runs:
        -- those are seen after the lock.
        perform from pgq.inflight
          where run_sub = i_sub and run_token = i_token and run_ids && i_ids for update;
        exit when not found and v_round > 1;
        with cut as (
            update pgq.inflight i set run_ids = kept.ids, run_places = kept.places
              from (select r.ctid as place, cardinality(r.run_ids) - count(*)::int as ended,
                           array_agg(e.id order by n) as ids,
                           array_agg(e.place order by n) as places
                      from pgq.inflight r
                     cross join unnest(r.run_ids, r.run_places) with ordinality e (id, place, n)
                     where r.run_sub = i_sub and r.run_token = i_token and r.run_ids && i_ids
                       and e.id <> all (i_ids)
                     group by r.ctid, r.run_ids) kept
             where i.ctid = kept.place and i.run_sub = i_sub and i.run_token = i_token
            returning kept.ended)
        select v_ended + coalesce(sum(ended), 0)::int into v_ended from cut;
        exit when v_ended >= cardinality(i_ids);
    end loop;
    if v_keys is not null then
        perform pgq.promote(i_sub, v_keys, v_ords, v_slots);
    end if;
    return v_ended;
end $$;
