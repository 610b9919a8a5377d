-- Takes events out of flight, for hide_events and the calls by id. A run that another session has
-- locked is being claimed just now, or promoted, or ended: it stays, and nobody is waited for.
-- Until the caller's transaction ends, the consumer gets nothing new.
-- Parameters: i_claimed: those too that are claimed; their claims lose them.
-- Returns: taken: their ids; held: those that stay in flight.
-- Writes: advisory lock; delete, update pgq.inflight; update pgq.last_run; as promote,
--   fill_slots.
create or replace function pgq.take_from_flight(
    i_sub int, i_ids bigint[], i_claimed boolean, out taken bigint[], out held bigint[])
language plpgsql as $$
declare
    r record;
    v_keys bigint[];
begin
    taken := '{}';
    perform pg_advisory_xact_lock(pgq.lock_number('refill'), i_sub);
    for r in
        select * from pgq.inflight
         where run_sub = i_sub and (run_token <= 0 or i_claimed) and run_ids && i_ids
           for update skip locked
    loop
        taken := taken || array(select id from unnest(r.run_ids) id where id = any (i_ids));
        if r.run_ids <@ i_ids then
            delete from pgq.inflight
             where run_sub = i_sub and run_token = r.run_token and run_no = r.run_no;
            if r.run_key is not null then
                -- the last run of the key is another one now
                update pgq.last_run
                   set last_ord = coalesce((
                        select max(run_ord) from pgq.inflight
                         where run_sub = i_sub and run_key = r.run_key), last_ord)
                 where last_sub = i_sub and last_key = r.run_key;
                -- and what was to wait for this one looks at all runs of the key
                update pgq.inflight set run_behind = 0
                 where run_sub = i_sub and run_key = r.run_key and run_behind is not null;
                v_keys := v_keys || r.run_key;
            end if;
        else
            update pgq.inflight
               set (run_ids, run_places) = (
                    select array_agg(e.id order by n), array_agg(e.place order by n)
                      from unnest(r.run_ids, r.run_places) with ordinality e (id, place, n)
                     where e.id <> all (i_ids))
             where run_sub = i_sub and run_token = r.run_token and run_no = r.run_no;
        end if;
    end loop;
    perform case when s.sub_per_key > 1 then pgq.fill_slots(s, v_keys)
                 else pgq.promote(i_sub, v_keys, null) end
       from pgq.registration s where sub_id = i_sub;
    held := array(
        select id from pgq.inflight cross join unnest(run_ids) id
         where run_sub = i_sub and run_ids && i_ids and id = any (i_ids));
end $$;
