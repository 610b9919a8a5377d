-- Function: pgq.ticker_activity()
--
-- The last event id of every queue that this database ticks, from the sequences: what a ticker polls. A queue whose
-- sequence is gone shows 0, and fails when it is ticked, not here. One that is being dropped is not among them.
--
-- Writes: as may_look_at; takes no xid.
create or replace function pgq.ticker_activity(out queue_name text, out event_seq bigint)
returns setof record language sql
security definer set search_path = pg_catalog, pg_temp as $$
    select queue_name, event_seq
      from pgq.queue
     cross join lateral (
            select case when pgq.may_look_at(queue_id)
                then coalesce(pg_sequence_last_value(to_regclass(queue_event_seq)), 0) end) looked (event_seq)
     where not queue_external_ticker and not queue_ticker_paused and event_seq is not null
$$;
comment on function pgq.ticker_activity() is 'The last event id of every queue that is ticked here.';
