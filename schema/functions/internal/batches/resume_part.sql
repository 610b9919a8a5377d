-- Gives a worker the range that its subconsumer has open, with a heartbeat. If another run held
-- it, and is dead, the range gets a new batch id, so that the other run cannot finish it later
-- (G5). A client of PGQ's own calls has no token (i_holder is null): it is another run too. Of two
-- such clients only the name is known, and the second one goes on with the batch, as in PGQ.
-- Returns: the batch; null: it is not open any more.
-- Raises: PQ021 the other run is alive.
-- Writes: row lock pgq.registration; update or insert pgq.position.
create or replace function pgq.resume_part(
    i_worker int, i_holder text, i_until timestamptz, i_dead_interval interval)
returns bigint language plpgsql as $$
declare
    w pgq.current_position;
    v_batch bigint;
begin
    perform from pgq.registration where sub_id = i_worker for no key update;
    select * into w from pgq.current_position where sub_id = i_worker;
    if w.pos_batch is null then
        return null;
    elsif w.pos_holder is not null and w.pos_holder is distinct from i_holder then
        if not pgq.holder_is_dead(
                w.sub_id, w.pos_holder, w.pos_until, w.pos_active, i_dead_interval) then
            perform pgq.raise_worker_lives(w);
        end if;
        v_batch := pgq.new_batch_id();
        perform pgq.take_range(w, w, v_batch, i_holder, i_until);
        return v_batch;
    end if;
    update pgq.position
       set pos_active = clock_timestamp(), pos_until = i_until,
           pos_holder = coalesce(pos_holder, i_holder),
           pos_moved = pgq.last_progress(pos_moved, pos_active)
     where pos_sub = w.sub_id and pos_no = w.pos_no;
    return w.pos_batch;
end $$;
