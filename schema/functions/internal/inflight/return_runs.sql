-- Returns events of a claim, to be claimed again. With i_keep, they keep the order of their key:
-- the events behind them in the same runs wait. Else they lose their key, and the next run goes on.
-- A run with a slot keeps its key, and gives its slot on while it is delayed.
-- Parameters: i_ids: null: all of the claim. i_delay: 0: at once. i_tried: their attempt counts.
-- Returns: how many.
-- Writes: update pgq.inflight; as split_runs, promote, pass_slots.
create or replace function pgq.return_runs(
    s pgq.registration, i_token bigint, i_ids bigint[], i_delay interval, i_keep boolean,
    i_tried boolean)
returns int language plpgsql as $$
declare
    v_keys bigint[];
    v_ords bigint[];
    v_slot_keys bigint[];
    v_slots int[];
    v_count int;
begin
    if (i_token > 0) is not true then
        return 0;
    end if;
    perform txid_current();  -- before a number: see pgq.front
    perform pgq.split_runs(s.sub_id, i_token, i_ids);
    -- what an earlier event of its key is before waits for that one, whatever its delay
    with returned as (
        update pgq.inflight i
           set run_token = case when o.waits then -2 when i_delay > '0' then -1 else -3 end,
               run_no = nextval('pgq.run_no_seq'),
               run_due = case when i_delay > '0' and not o.waits
                   then clock_timestamp() + i_delay end,
               run_key = case when i_keep or i.run_slot is not null then i.run_key end,
               run_slot = case when not i_delay > '0' then i.run_slot end, run_holder = null,
               run_took = null,
               run_part = case when not i_tried then i.run_part end,
               run_crashes = case when i_tried then 0 else i.run_crashes end,
               run_attempts = i.run_attempts - (not i_tried)::int
          from (select ctid as place, run_key, run_ord, run_slot,
                       i_keep and run_slot is null and exists (
                       select from pgq.inflight e
                        where e.run_sub = s.sub_id and e.run_key = r.run_key
                          and e.run_ord < r.run_ord) as waits
                  from pgq.inflight r where run_sub = s.sub_id and run_token = i_token) o
         where o.place = i.ctid and i.run_sub = s.sub_id and i.run_token = i_token
           and (i_ids is null or i.run_ids <@ i_ids)
        returning cardinality(i.run_ids) as count, o.run_key, o.run_ord, o.run_slot)
    select coalesce(sum(count), 0),
           array_agg(run_key) filter (where run_key is not null and run_slot is null),
           array_agg(run_ord) filter (where run_key is not null and run_slot is null),
           array_agg(run_key) filter (where run_slot is not null),
           array_agg(run_slot) filter (where run_slot is not null)
      into v_count, v_keys, v_ords, v_slot_keys, v_slots from returned;
    if v_slots is not null and i_delay > '0' then
        perform pgq.pass_slots(s.sub_id, v_slot_keys, v_slots);
    end if;
    if v_keys is null then
        return v_count;
    elsif i_keep then
        update pgq.inflight
           set run_token = -2, run_no = nextval('pgq.run_no_seq'), run_due = null,
               run_holder = null, run_took = null, run_attempts = run_attempts - 1
          from unnest(v_keys, v_ords) r (key, ord)
         where run_sub = s.sub_id and run_token = i_token and run_key = r.key and run_ord > r.ord
           and run_slot is null;
    else
        perform pgq.promote(s.sub_id, v_keys, null);
    end if;
    return v_count;
end $$;
