-- Whether a consumer at this tick keeps a rotation from truncating the queue's next table, once the
-- rotation is due.
-- Returns: null while a session holds the table's lock, or waits for it, for more than 100 ms.
create or replace function pgq.keeps_table(q pgq.queue, i_tick bigint)
returns boolean language plpgsql set lock_timeout = '100ms' as $$
begin
    return q.queue_switch_step2 is not null
       and pgq.is_rotation_due(q)
       and not pgq.tick_sees_table(
           q.queue_id, i_tick, (q.queue_cur_table + 1) % q.queue_ntables);
exception when lock_not_available or undefined_table then
    return null;
end $$;
