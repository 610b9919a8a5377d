-- Keeps everybody from cutting a queue until the transaction ends: no tick, and no refill of a
-- shared consumer but one that ends at a tick. copy_chunk calls it with the table locked: were that
-- locked later, an ALTER of the table would keep ticks away.
--
-- The lock of refills comes first: who has refilled keeps it until the end of its transaction, and
-- nobody ticks while the queue's row is locked. The transaction has its id before it reads, as a
-- producer's has before its events get theirs: see build_insert_leaf.
-- Raises: PQ001; PQ011 an external tick source; PQ013 not READ COMMITTED; 25001 the transaction has
--   written before.
-- Writes: advisory lock; row lock on pgq.queue.
create or replace function pgq.hold_cuts(i_queue_name text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(i_queue_name);
begin
    perform pgq.check_isolation('a copy of a table');
    if txid_current_if_assigned() is not null then
        raise exception 'this transaction has written before' using errcode = '25001',
            hint = 'each chunk is a transaction of its own';
    elsif q.queue_external_ticker then
        raise exception 'This queue has external tick source.' using errcode = 'PQ011',
            detail = format('queue %s', i_queue_name);
    end if;
    perform pg_advisory_xact_lock(pgq.lock_number('copying'), q.queue_id);
    perform txid_current();
    perform from pgq.queue where queue_id = q.queue_id for no key update;
end $$;
comment on function pgq.hold_cuts is 'Keeps ticks away while rows of a table are copied.';
