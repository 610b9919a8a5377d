-- Finishes a batch: moves the consumer's position to the batch's end, or leaves a subconsumer
-- without a range. Called in the transaction that processes the events, it makes each event's
-- effect happen once (G9). The batch is locked first: a session that waited for the lock finds it
-- closed (G5).
-- Returns: 1; or 0 with a WARNING when the batch is not open: finished before, or taken away.
-- Raises: 40001 in REPEATABLE READ, another session moved the position, or as check_snapshot.
-- Writes: row lock pgq.registration; insert pgq.position; as check_snapshot.
create or replace function pgq.finish_batch(x_batch_id bigint)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, true);
begin
    if p.pos_sub is null then
        raise warning 'finish_batch: batch % not found', x_batch_id;
        return 0;
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no,
        (select p.pos_next_tick from pgq.registration
          where sub_id = p.pos_sub and sub_parent is null), null, null);
    return 1;
end $$;
comment on function pgq.finish_batch is 'Finishes a batch: 1 done, 0 it was not open.';
