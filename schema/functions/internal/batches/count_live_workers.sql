-- How many workers a shared consumer has that have a range, or a session with the advisory lock of
-- their subconsumer. The calling worker counts.
create or replace function pgq.count_live_workers(i_parent int, i_worker int)
returns bigint language sql as $$
    select 1 + count(*)
      from pgq.current_position p
     where p.sub_parent = i_parent and p.sub_id <> i_worker
       and (p.pos_batch is not null or not pgq.holder_is_dead(p.sub_id, '', null, now(), null))
$$;
