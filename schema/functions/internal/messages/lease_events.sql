-- Leases events of a range that nobody holds, under a new batch id. The rest of the range, if there
-- is one, stays in its subconsumer, also under a new id: a receiver whose lease has ended lost it
-- as a whole. A worker's subconsumer is left, because the worker goes on with what its own has.
--
-- What was counted against the first open event goes with the lease, which has it. The rest keeps
-- the size of the parts, and the leases that had all of it. A lease counts as progress (pos_moved):
-- the rest of a range does not tell what was finished of it. pos_leases tells of leases that end.
-- Parameters: d: the range, locked by the caller, as count_end returned it. i_ids: the first of its
--   open events. i_rest: there are more. i_until: the end of the lease.
-- Returns: the batch id of the lease.
-- Raises: PQ022, PQ009 as lease_slot.
-- Writes: insert pgq.position; as lease_slot.
create or replace function pgq.lease_events(
    d pgq.current_position, i_ids bigint[], i_rest boolean, i_until timestamptz)
returns bigint language plpgsql as $$
declare
    s pgq.current_position := d;
    v_batch constant bigint := pgq.new_batch_id();
begin
    if i_rest or not exists (
            select from pgq.consumer c
              join pgq.registration r on r.sub_id = d.sub_parent
              join pgq.consumer p on p.co_id = r.sub_consumer
             where c.co_id = d.sub_consumer and starts_with(c.co_name, p.co_name || '.receive-'))
    then
        s := pgq.lease_slot(d.sub_parent, 'receive');
        if i_rest then
            perform pgq.move_position(d.sub_id, d.pos_no, d.pos_last_tick, d.pos_next_tick,
                pgq.new_batch_id(), x_from => case when d.pos_ids is null
                    then i_ids[cardinality(i_ids)] else d.pos_from end,
                x_done => d.pos_done, x_part => d.pos_part,
                x_until => '-infinity', x_to => d.pos_to,
                x_ids => (select array_agg(id) from unnest(d.pos_ids) id where id <> all (i_ids)),
                x_leases => d.pos_leases);
        else
            perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);
        end if;
    end if;
    perform pgq.move_position(s.sub_id, s.pos_no, d.pos_last_tick, d.pos_next_tick, v_batch,
        x_holder => 'receive', x_part => d.pos_part, x_tries => d.pos_tries, x_until => i_until,
        x_died => d.pos_died, x_ids => i_ids, x_leases => d.pos_leases);
    return v_batch;
end $$;
