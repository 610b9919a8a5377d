-- Whether the run that has a lane's batch open is dead: see holder_is_dead. Its session holds the
-- advisory lock of its token.
-- Parameters: s: the lane.
create or replace function pgq.run_is_dead(s pgq.current_position, i_dead_interval interval)
returns boolean language sql as $$
    select pgq.holder_is_dead(hashtext(s.pos_holder), s.pos_holder, s.pos_until, s.pos_active,
        i_dead_interval, pgq.lock_number('run'))
$$;
