-- Function: pgq.batch_event_sql(x_batch_id bigint)
--
-- The query of a batch: events that the current tick sees and the last tick does not.
--
-- "ev_txid >= xmin of the last tick" would be right and simple, but xmin stands still while any transaction is
-- open: each batch would read again everything since that transaction began. So the range goes from xmax to xmax, and the
-- transactions that were in progress at the last tick and had ended by the current one are listed: one index probe
-- each. Events of those that rolled back are invisible anyway (G2).
--
-- All tables of the queue are read (through their parent): the one that a late writer used may be any of them, and an
-- index probe that finds nothing is cheap (G1).
--
-- Returns: SQL text, ordered by ev_id (and by ev_txid, should an id be there twice); null when the batch is not open.
-- Raises: 40001 as check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.batch_event_sql(x_batch_id bigint)
returns text language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    b record;
    v_ended text;
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_from text;
    v_sql text;
begin
    select * into b from pgq.find_batch(x_batch_id);
    if not found then
        return null;
    end if;
    v_from := format('select %s from %s where (ev_owner is null or ev_owner = %s)', v_columns, pgq.quote_fqname(b.data_pfx), b.sub_id);
    v_sql := format('%s and ev_txid >= %s and ev_txid < %s', v_from,
        txid_snapshot_xmax(b.last_snapshot), txid_snapshot_xmax(b.next_snapshot));
    if exists (select from txid_snapshot_xip(b.next_snapshot) x where x >= txid_snapshot_xmax(b.last_snapshot)) then
        v_sql := v_sql || format(' and txid_visible_in_snapshot(ev_txid, %L)', b.next_snapshot);
    end if;
    select string_agg(x::text, ',') into v_ended
      from txid_snapshot_xip(b.last_snapshot) x where txid_visible_in_snapshot(x, b.next_snapshot);
    if v_ended is not null then
        v_sql := v_sql || format(' union all %s and ev_txid = any (%L)', v_from, '{' || v_ended || '}');
    end if;
    return v_sql || ' order by 1, 3';
end
$$;
comment on function pgq.batch_event_sql(bigint) is 'The query of a batch.';
