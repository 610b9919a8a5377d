-- The last event id of each queue that this database ticks and whose id is in i_queue_ids or from
-- i_first to i_last. A ticker polls it. With some queues at a time, a call stays short however many
-- queues there are, and takes no more locks than the lock table has room for (two a queue). A queue
-- whose sequence is missing shows 0, and fails when it is ticked. A queue that is being dropped is
-- left out.
--
-- It is in PL/pgSQL, which keeps the plan. Before PostgreSQL 18 a function in SQL is planned in
-- every statement, which takes longer than looking at a few queues.
--
-- Writes: as try_lock_against_drop; takes no xid.
create or replace function pgq.ticker_activity(
    i_first int, i_last int, i_queue_ids int[], out queue_id int, out queue_name text,
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
            select case when pgq.try_lock_against_drop(q.queue_id)
                   then coalesce(pg_sequence_last_value(q.sequence), 0) end) looked (event_seq)
     where not q.queue_external_ticker and not q.queue_ticker_paused
       and looked.event_seq is not null;
end $$;
comment on function pgq.ticker_activity(int, int, int[]) is 'The last event ids of some queues.';

-- The last event id of every queue that this database ticks.
create or replace function pgq.ticker_activity(out queue_name text, out event_seq bigint)
returns setof record language sql security definer set search_path = pg_catalog, pg_temp as $$
    select queue_name, event_seq from pgq.ticker_activity(-2147483648, 2147483647, '{}')
$$;
comment on function pgq.ticker_activity() is 'The last event id of every queue ticked here.';
