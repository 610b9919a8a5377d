-- Locks a subconsumer with a range whose holder is dead: see holder_is_dead. A subconsumer that
-- another session has locked is skipped, and the next one is tried: that session may finish the
-- range, or be stopped. So each is read again after the lock.
-- Parameters: i_parent: the consumer, locked by the caller. i_dead_interval: see holder_is_dead.
-- Returns: its position, all null when there is none.
-- Writes: row lock pgq.registration.
create or replace function pgq.lock_free_range(i_parent int, i_dead_interval interval)
returns pgq.current_position language plpgsql as $$
declare
    d pgq.current_position;
    v_sub int;
begin
    for v_sub in
        select p.sub_id
          from pgq.current_position p
         where p.sub_parent = i_parent and p.pos_batch is not null
           and pgq.holder_is_dead(
               p.sub_id, p.pos_holder, p.pos_until, p.pos_active, i_dead_interval)
         order by p.sub_id
    loop
        perform from pgq.registration where sub_id = v_sub for no key update skip locked;
        if found then
            d := pgq.find_dead_worker(i_parent, i_dead_interval, v_sub);
            if d.sub_id is not null then
                return d;
            end if;
        end if;
    end loop;
    return null;
end $$;
