-- Moves the range of a dead holder's subconsumer to another one, or to a new run of the same one,
-- with what is finished of it. It gets a new batch id: the old one is not open any more (G5). If
-- the holder had not released it (end_run), that was an unclean end: see narrow_part. The caller
-- holds both registrations.
--
-- A holder that lost its session looks dead, and comes back under the same token a moment later. So
-- the tokens of what counts against an event are kept (pos_died), each once: see uncount_end.
-- Writes: insert pgq.position.
create or replace function pgq.take_range(
    d pgq.current_position, w pgq.current_position, i_batch bigint, i_holder text,
    i_until timestamptz)
returns void language plpgsql as $$
begin
    if d.pos_ids is not null and coalesce(d.pos_holder, 'receive') = 'receive' then
        d.pos_tries := null;  -- ends of leases, not unclean ends of runs
        d.pos_died := null;
    elsif d.pos_holder is not null then
        if d.pos_part is distinct from 1 or d.pos_holder <> all (coalesce(d.pos_died, '{}')) then
            d.pos_died := coalesce(d.pos_died, '{}')
                || case when d.pos_part = 1 then array[d.pos_holder] end;
            select n.part_size, n.tries into d.pos_part, d.pos_tries
              from pgq.narrow_part(d.pos_part, d.pos_tries) n;
        end if;
    end if;
    if d.sub_id <> w.sub_id then
        perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);
    end if;
    perform pgq.move_position(w.sub_id, w.pos_no, d.pos_last_tick, d.pos_next_tick, i_batch,
        x_from => d.pos_from, x_done => d.pos_done, x_holder => i_holder, x_part => d.pos_part,
        x_tries => d.pos_tries, x_until => i_until, x_to => d.pos_to, x_died => d.pos_died,
        x_ids => d.pos_ids);
end $$;
