-- Decides which events a consumer takes. What is not finished yet is read with the new filter, also
-- of open batches. What was finished, or left out while the position passed it, stays so. Retried
-- and dead events were taken before, and come back whatever the filter is.
--
-- An open batch gets a new id. A session that has read it with the old filter cannot finish it then
-- (G5): it would finish events that it never saw. The events that it handled are delivered again.
-- While a session with the consumer's advisory lock is at work, the change is refused instead. The
-- session that calls this may hold the lock.
--
-- The consumer is locked before its filter is compared: of two programs that start with different
-- filters, the one that comes second sees the lock of the first.
-- Parameters: i_filter: see check_filter; null: all events.
-- Returns: 1 changed, 0 it was so.
-- Raises: PQ002 not a subscriber; PQ009 as check_filter; PQ013 not READ COMMITTED: the read after
--   the lock needs a new snapshot; PQ020 it is a subconsumer; PQ021 another session is at work.
-- Writes: row locks and update pgq.registration; insert pgq.position, for open batches.
create or replace function pgq.set_consumer_filter(
    i_queue_name text, i_consumer_name text, i_filter jsonb)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r pgq.registration;
    v_filter constant jsonb := pgq.check_filter(i_filter);
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
begin
    perform pgq.check_isolation('set_consumer_filter');
    select * into r from pgq.registration where sub_id = v_sub for no key update;
    if r.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, r.sub_mode);
    elsif r.sub_filter is not distinct from v_filter then
        return 0;
    end if;
    perform from pgq.registration where sub_parent = v_sub order by sub_id for no key update;
    if pgq.is_running(v_sub) then
        raise exception 'the consumer %/% is running with another filter',
            i_queue_name, i_consumer_name using errcode = 'PQ021',
            detail = format('a session holds the advisory lock (%s, %s)',
                pgq.lock_number('consumer'), v_sub),
            hint = 'stop it first; all programs that run a consumer have the same filter';
    elsif exists (
            select from pgq.holder h where holder_sub = v_sub and not pgq.holder_is_gone(h)) then
        raise exception 'the consumer %/% is running with another filter',
            i_queue_name, i_consumer_name using errcode = 'PQ021',
            detail = 'processes have leases: see get_holders',
            hint = 'stop them first; all programs that run a consumer have the same filter';
    end if;
    perform pgq.move_position(sub_id, pos_no, pos_last_tick, pos_next_tick, pgq.new_batch_id(),
            pos_pins, pos_from, pos_moved, pos_attempts)
       from pgq.current_position where v_sub in (sub_id, sub_parent) and pos_batch is not null;
    update pgq.registration set sub_filter = v_filter where sub_id = v_sub;
    return 1;
end $$;
comment on function pgq.set_consumer_filter is 'Decides which events a consumer takes.';
