-- The last event id of each queue that this database ticks and whose id is in i_queue_ids or from
-- i_first to i_last. A ticker polls it. With some queues at a time, a call stays short however many
-- queues there are, and takes no more locks than the lock table has room for (two a queue). A queue
-- whose sequence is missing shows 0, and fails when it is ticked.
--
-- A ticker that reads a sequence locks it until its transaction ends, and then wants the queue's
-- row; drop_queue locks both. So drop_queue takes an advisory lock first, and a ticker reads no
-- sequence of a queue whose lock is not free: else they would deadlock, or all other queues would
-- wait for a drop that waits itself.
--
-- It is in PL/pgSQL, which keeps the plan. Before PostgreSQL 18 a function in SQL is planned in
-- every statement, which takes longer than looking at a few queues.
-- Writes: shared advisory locks; takes no xid.
create or replace function pgq.ticker_activity(
    i_first int default -2147483648, i_last int default 2147483647,
    i_queue_ids int[] default '{}', out queue_id int, out queue_name text,
    out sequence regclass, out event_seq bigint)
returns setof record language plpgsql rows 10
security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    return query
    select q.queue_id, q.queue_name, q.sequence, looked.event_seq
      from (
            select *, to_regclass(queue_event_seq) as sequence from pgq.queue
             where queue_id = any (i_queue_ids)
            union all
            select *, to_regclass(queue_event_seq) from pgq.queue
             where queue_id between i_first and i_last and queue_id <> all (i_queue_ids)) q
     cross join lateral (
            select case when pg_try_advisory_xact_lock_shared(pgq.lock_number('queue'), q.queue_id)
                   then coalesce(pg_sequence_last_value(q.sequence), 0) end) looked (event_seq)
     where not q.queue_external_ticker and not q.queue_ticker_paused
       and looked.event_seq is not null;
end $$;
comment on function pgq.ticker_activity is 'The last event ids of some queues.';
