-- Tells that a run of a consumer has ended in order, though its batch may be open: the next run
-- does not count it as a crash. The careful mode stays as it is. The lease ends: another
-- worker of a shared consumer may take the batch over at once.
-- Returns: 1; 0 if another run has begun meanwhile.
-- Raises: PQ002 not a subscriber; PQ013, PQ020 as lock_subscription.
-- Writes: as lock_subscription; insert pgq.position.
create or replace function pgq.end_run(i_queue_name text, i_consumer_name text, i_holder text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_subscription(i_queue_name, i_consumer_name, true);
begin
    if p.pos_holder is distinct from i_holder then
        return 0;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        p.pos_pins, p.pos_from, p.pos_done, null, p.pos_part, p.pos_tries, clock_timestamp(),
        p.pos_to, x_died => p.pos_died, x_ids => p.pos_ids, x_moved => p.pos_moved);
    return 1;
end $$;
comment on function pgq.end_run is 'Tells that a run has ended in order: 1 done, 0 another began.';
