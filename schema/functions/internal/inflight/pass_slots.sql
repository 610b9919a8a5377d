-- Lets the first run of a key that waits go on, in a slot of its key. The caller has a
-- transaction id before this function takes a number: see pgq.front. A run that another session
-- has locked is passed over: it is promoted just now.
-- Parameters: arrays, whose elements with the same index belong together: a key, and a slot of it
--   that the caller's transaction made free, or found free with the refill's lock. null: none.
-- Returns: how many go on.
-- Writes: update pgq.inflight.
create or replace function pgq.pass_slots(i_sub int, i_keys bigint[], i_slots int[])
returns int language plpgsql as $$
declare
    v_per_key constant int := (select sub_per_key from pgq.registration where sub_id = i_sub);
    r record;
    v_count int := 0;
begin
    for r in
        select key, slot from unnest(i_keys, i_slots) e (key, slot)
         where key is not null and slot <= v_per_key
    loop
        update pgq.inflight
           set run_token = -3, run_no = nextval('pgq.run_no_seq'), run_slot = r.slot
         where run_token = -2 and ctid = (
                select ctid from pgq.inflight
                 where run_sub = i_sub and run_key = r.key and run_token = -2
                 order by run_ord limit 1 for update skip locked);
        v_count := v_count + found::int;
    end loop;
    return v_count;
end $$;
