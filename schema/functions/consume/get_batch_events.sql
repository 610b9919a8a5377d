-- The events of an open batch that finish_part has not finished, ordered by id. Without finish_part
-- they are the same in each call (G3).
-- Raises: PQ003 batch not found; PQ012, 40001, 42501 as batch_event_sql.
-- Writes: as batch_event_sql.
create or replace function pgq.get_batch_events(
    x_batch_id bigint, out ev_id bigint, out ev_time timestamptz, out ev_txid bigint,
    out ev_retry int, out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query execute pgq.batch_event_sql(x_batch_id);
end $$;
comment on function pgq.get_batch_events is 'The events of an open batch, ordered by id.';
