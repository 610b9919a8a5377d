-- The table that a COPY of a producer writes into. COPY in the same transaction, into the columns
-- ev_time, ev_type, ev_data, ev_extra1..4; the others have defaults. A rotation in between loses
-- nothing (G1): consumers read all tables of a queue, and a table is truncated only when every
-- consumer has had its events.
-- Returns: the qualified, quoted name.
-- Raises: PQ001; PQ006 Writing to queue disabled.
create or replace function pgq.current_event_table(x_queue_name text)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(x_queue_name);
begin
    if q.queue_disable_insert and current_setting('session_replication_role') <> 'replica' then
        raise exception 'Writing to queue disabled' using errcode = 'PQ006',
            detail = format('queue %s', x_queue_name);
    end if;
    return format('pgq.%I', pgq.event_table(q.queue_id, q.queue_cur_table));
end $$;
comment on function pgq.current_event_table is 'The table that a COPY writes into.';
