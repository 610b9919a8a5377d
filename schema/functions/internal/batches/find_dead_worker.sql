-- A subconsumer whose holder is dead and left a range: see holder_is_dead. It is a read without a
-- lock; lock_free_range claims.
-- Parameters: i_parent: the consumer. i_worker: only this subconsumer; null: all of them.
-- Returns: its position, all null when there is none.
create or replace function pgq.find_dead_worker(
    i_parent int, i_dead_interval interval, i_worker int default null)
returns pgq.current_position language plpgsql as $$
declare
    d pgq.current_position;
begin
    select p.* into d
      from pgq.current_position p
     where p.sub_parent = i_parent and (i_worker is null or p.sub_id = i_worker)
       and p.pos_batch is not null
       and pgq.holder_is_dead(p.sub_id, p.pos_holder, p.pos_until, p.pos_active, i_dead_interval)
     order by p.sub_id limit 1;
    return d;
end $$;
