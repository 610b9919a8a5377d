-- Lets the next run of each key go on, if it waits. The caller has a transaction id before this
-- function takes a number: see pgq.front.
-- Parameters: arrays, whose elements with the same index belong to one run that has ended: its key,
--   its run_ord, and its slot, if it had one: then see pass_slots. i_ords null: the first run of
--   each key, whatever ended.
-- Returns: how many go on.
-- Writes: update pgq.inflight; as pass_slots.
create or replace function pgq.promote(
    i_sub int, i_keys bigint[], i_ords bigint[], i_slots int[] default null)
returns int language plpgsql as $$
declare
    v_count int;
begin
    update pgq.inflight set run_token = -3, run_no = nextval('pgq.run_no_seq')
     where run_token = -2 and ctid = any (array(
            select (select i.ctid from pgq.inflight i
                     where i.run_sub = i_sub and i.run_key = e.key
                       and i.run_ord > coalesce(e.ord, -1)
                     order by i.run_ord limit 1)
              from unnest(i_keys, i_ords, i_slots) e (key, ord, slot)
             where slot is null));
    get diagnostics v_count = row_count;
    if array_remove(i_slots, null) <> '{}' then
        v_count := v_count + pgq.pass_slots(i_sub, i_keys, i_slots);
    end if;
    return v_count;
end $$;
