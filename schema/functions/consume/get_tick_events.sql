-- The events after one tick, up to another, ordered by id: see tick_event_sql. The settings are
-- those of get_batch_events.
-- Raises, writes: as tick_event_sql.
create or replace function pgq.get_tick_events(
    i_queue_name text, i_from_tick bigint, i_to_tick bigint, out ev_id bigint,
    out ev_time timestamptz, out ev_txid bigint, out ev_retry int, out ev_type text,
    out ev_data text, out ev_extra1 text, out ev_extra2 text, out ev_extra3 text,
    out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query execute pgq.tick_event_sql(i_queue_name, i_from_tick, i_to_tick)
        || ' order by 1, 3';
end $$;
comment on function pgq.get_tick_events is 'The events between two ticks.';
