-- The delayed events of a queue, the one that is due first.
-- Parameters: i_limit: at most this many; null: all.
-- Returns: ev_deliver_at: when the event is due. ev_time, ev_txid: when and by which transaction it
--   was inserted.
-- Raises: PQ001.
create or replace function pgq.get_delayed_events(
    i_queue_name text, i_limit int default null, out ev_deliver_at timestamptz, out ev_id bigint,
    out ev_time timestamptz, out ev_txid bigint, out ev_type text, out ev_data text,
    out ev_extra1 text, out ev_extra2 text, out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(i_queue_name);
begin
    return query
    select d.ev_deliver_at, d.ev_id, d.ev_time, d.ev_txid, d.ev_type, d.ev_data,
           d.ev_extra1, d.ev_extra2, d.ev_extra3, d.ev_extra4
      from pgq.delayed_event d
     where d.ev_queue = q.queue_id
     order by d.ev_deliver_at, d.ev_id limit i_limit;
end $$;
comment on function pgq.get_delayed_events is 'A queue''s delayed events, the next one first.';
