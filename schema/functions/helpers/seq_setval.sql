-- Moves a sequence of a queue, and no other, forward, never back.
--
-- A producer may take ids between the read of the sequence and a setval, which would then move it
-- back. So up to 100,000 ids are taken by nextval. No producer takes more meanwhile, but another
-- such move may. So a setval first takes the sequence's advisory lock, and reads again. (One lock
-- for all sequences would make repair_queue wait for a transaction that may wait for its queue.)
-- Parameters: i_seq_name: queue_event_seq or queue_tick_seq of a queue.
-- Returns: the resulting last value.
-- Raises: PQ009, the sequence belongs to no queue, or the value is beyond 2^62, where sums with it
--   would overflow.
-- Writes: nextval; or advisory lock and setval.
create or replace function pgq.seq_setval(i_seq_name text, i_new_value bigint)
returns bigint language plpgsql strict security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_most constant int := 100000;
    v_last bigint;
begin
    if not exists (select from pgq.queue where i_seq_name in (queue_event_seq, queue_tick_seq)) then
        raise exception 'sequence % belongs to no queue', i_seq_name using errcode = 'PQ009',
            hint = 'name the queue_event_seq or queue_tick_seq of a row of pgq.queue';
    elsif i_new_value > 1::bigint << 62 then
        raise exception 'value % is out of range', i_new_value using errcode = 'PQ009',
            hint = format('values go up to %s', 1::bigint << 62);
    end if;
    v_last := pgq.seq_getval(i_seq_name);
    if i_new_value > v_last + c_most then
        perform pg_advisory_xact_lock(pgq.lock_number('sequence'), hashtext(i_seq_name));
        v_last := pgq.seq_getval(i_seq_name);
        if i_new_value > v_last + c_most then
            return setval(i_seq_name::regclass, i_new_value);
        end if;
    end if;
    return coalesce((
        select max(nextval(i_seq_name::regclass)) from generate_series(v_last + 1, i_new_value)),
        v_last);
end $$;
comment on function pgq.seq_setval is 'Moves a queue''s sequence forward.';
