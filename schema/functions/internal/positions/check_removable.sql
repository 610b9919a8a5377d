-- Checks that a subconsumer may be removed: it has no batch open, and no other session holds its
-- advisory lock. A worker that is idle holds the lock too, and would not find its name again.
-- Parameters: r: the subconsumer, locked by the caller. i_drop_batch: it may have a batch open.
-- Raises: PQ021 subconsumer has active batch, or a worker runs under its name.
create or replace function pgq.check_removable(r pgq.registration, i_drop_batch boolean)
returns void language plpgsql as $$
declare
    v_batch bigint;
begin
    v_batch := (select pos_batch from pgq.current_position where sub_id = r.sub_id);
    if v_batch is not null and i_drop_batch is not true then
        raise exception 'subconsumer has active batch' using errcode = 'PQ021',
            detail = format('batch %s', v_batch),
            hint = 'finish it, or let another worker take it over: pgq.take_part';
    elsif not pgq.holder_is_dead(r.sub_id, '', null, now(), null) then
        raise exception 'a worker runs under the name of this subconsumer' using errcode = 'PQ021',
            detail = format('a session holds the advisory lock (%s, %s)',
                pgq.lock_number('consumer'), r.sub_id),
            hint = 'stop the worker first';
    end if;
end $$;
