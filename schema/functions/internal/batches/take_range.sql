-- Moves the range of a dead holder's subconsumer to another one, or to a new run of the same one,
-- with what is finished of it, and with the end of its holder counted: see count_end. It gets a
-- new batch id: the old one is not open any more (G5). The caller holds both registrations.
-- What failed in a batch of parked events has failed in the new one.
--
-- A takeover is no progress, see last_progress. So doctor sees that workers take a range from each
-- other and finish nothing of it.
-- Writes: insert pgq.position; update pgq.parked.
create or replace function pgq.take_range(
    d pgq.current_position, w pgq.current_position, i_batch bigint, i_holder text,
    i_until timestamptz)
returns void language plpgsql as $$
begin
    d := pgq.count_end(d);
    if d.sub_id <> w.sub_id then
        perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);
    end if;
    if d.pos_last_tick = d.pos_next_tick then
        update pgq.parked set park_batch = i_batch
         where ev_owner = coalesce(d.sub_parent, d.sub_id) and ev_id = any (d.pos_ids)
           and park_batch = d.pos_batch;
    end if;
    perform pgq.move_position(w.sub_id, w.pos_no, d.pos_last_tick, d.pos_next_tick, i_batch,
        x_from => d.pos_from, x_done => d.pos_done, x_holder => i_holder, x_part => d.pos_part,
        x_tries => d.pos_tries, x_until => i_until, x_to => d.pos_to, x_died => d.pos_died,
        x_ids => d.pos_ids,
        x_moved => pgq.last_progress(d.pos_moved, d.pos_active));
end $$;
