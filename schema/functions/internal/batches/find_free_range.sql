-- A subconsumer with a range whose holder is dead: see holder_is_dead. One that another session has
-- locked is skipped, and the next one is tried: that session may finish the range, or be stopped.
-- Each is read again after the lock.
-- Parameters: i_parent: the consumer, locked by the caller if i_locks. i_locks: lock the
--   subconsumer; false: only look for one.
-- Returns: its position, all null when there is none.
-- Writes: row lock pgq.registration.
create or replace function pgq.find_free_range(
    i_parent int, i_dead_interval interval, i_locks boolean)
returns pgq.current_position language plpgsql as $$
declare
    d pgq.current_position;
begin
    for d in
        select * from pgq.current_position p
         where p.sub_parent = i_parent and p.pos_batch is not null
           and pgq.holder_is_dead(
               p.sub_id, p.pos_holder, p.pos_until, p.pos_active, i_dead_interval)
         order by p.sub_id
    loop
        if not i_locks then
            return d;
        end if;
        perform from pgq.registration where sub_id = d.sub_id for no key update skip locked;
        if found then
            select * into d from pgq.current_position p
             where p.sub_id = d.sub_id and p.pos_batch is not null
               and pgq.holder_is_dead(
                   p.sub_id, p.pos_holder, p.pos_until, p.pos_active, i_dead_interval);
            if found then
                return d;
            end if;
        end if;
    end loop;
    return null;
end $$;
