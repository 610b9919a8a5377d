-- Function: pgq.ticker_activity()
--
-- The last event id of every queue that this database ticks, from the sequences: what a ticker polls. A queue whose
-- sequence is gone shows 0, and fails when it is ticked, not here.
--
-- Writes: nothing, takes no xid.
create or replace function pgq.ticker_activity(out queue_name text, out event_seq bigint)
returns setof record language sql
security definer set search_path = pg_catalog, pg_temp as $$
    select queue_name, coalesce(pg_sequence_last_value(to_regclass(queue_event_seq)), 0)
      from pgq.queue where not queue_external_ticker and not queue_ticker_paused
$$;
comment on function pgq.ticker_activity() is 'The last event id of every queue that is ticked here.';
