-- Gives the free slots of keys to runs that wait. The caller holds the refill's lock: so nobody
-- else gives a slot that is free.
-- Returns: how many go on.
-- Writes: as pass_slots.
create or replace function pgq.fill_slots(s pgq.registration, i_keys bigint[])
returns int language sql as $$
    select pgq.pass_slots(s.sub_id, array_agg(key), array_agg(slot))
      from (select key, slot
              from (select distinct key from unnest(i_keys) key) k
             cross join generate_series(1, s.sub_per_key) slot
            except
            select run_key, run_slot from pgq.inflight
             where run_sub = s.sub_id and run_key = any (i_keys) and run_slot is not null
             order by 1, 2) free
$$;
