-- Deletes claimed events: they are done. The next runs of their keys go on.
-- Parameters: i_ids: null: all of the claim.
-- Returns: how many. Fewer than were named: the others are not of this claim, or its lease ended.
-- Writes: delete, update pgq.inflight; as promote.
create or replace function pgq.end_runs(i_sub int, i_token bigint, i_ids bigint[])
returns int language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_key bigint;
    v_ord bigint;
    v_keys bigint[];
    v_ords bigint[];
    v_ended int;
    v_cut int;
begin
    if (i_token > 0) is not true then
        return 0;
    elsif cardinality(i_ids) = 1 then  -- most often; it takes a third of the time
        delete from pgq.inflight
         where run_sub = i_sub and run_token = i_token and run_ids = i_ids
        returning run_key, run_ord into v_key, v_ord;
        if found then
            perform pgq.promote(i_sub, array[v_key], array[v_ord]) where v_key is not null;
            return 1;
        end if;
    end if;
    with ended as (
        delete from pgq.inflight
         where run_sub = i_sub and run_token = i_token
           and (i_ids is null or run_ids = i_ids or run_ids <@ i_ids)
        returning cardinality(run_ids) as count, run_key, run_ord)
    select coalesce(sum(count), 0), array_agg(run_key) filter (where run_key is not null),
           array_agg(run_ord) filter (where run_key is not null)
      into v_ended, v_keys, v_ords from ended;
    if v_ended < cardinality(i_ids) then
        perform from pgq.inflight
          where run_sub = i_sub and run_token = i_token and run_ids && i_ids for update;
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
        select coalesce(sum(ended), 0)::int into v_cut from cut;
    end if;
    if v_keys is not null then
        perform pgq.promote(i_sub, v_keys, v_ords);
    end if;
    return v_ended + coalesce(v_cut, 0);
end $$;
