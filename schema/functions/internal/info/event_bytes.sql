-- The size of a queue's event tables on disk, with indexes and TOAST; null where a session holds a
-- table's lock, or waits for it, for more than 100 ms. For lists of all queues: see read_sequence.
-- pg_total_relation_size releases its locks at once, so thousands of tables fit into one call.
-- Raises: 40P01.
create or replace function pgq.event_bytes(q pgq.queue)
returns bigint language plpgsql set lock_timeout = '100ms' as $$
begin
    return (select sum(pg_total_relation_size(inhrelid))
              from pg_inherits where inhparent = to_regclass(q.queue_data_pfx));
exception
    when deadlock_detected then
        raise;
    when others then
        return null;
end $$;
