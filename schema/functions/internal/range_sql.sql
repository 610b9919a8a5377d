-- Function: pgq.range_sql(i_data_pfx text, i_last txid_snapshot, i_next txid_snapshot, i_sub_id int)
--
-- The query of the events that one tick's snapshot sees and an earlier one's does not.
--
-- "ev_txid >= xmin of the last tick" would be right and simple, but xmin stands still while any transaction is
-- open: each batch would read again everything since that transaction began. So the range goes from xmax to xmax, and the
-- transactions that were in progress at the last tick and had ended by the current one are listed: one index probe
-- each. Events of those that rolled back are invisible anyway (G2).
--
-- All tables of the queue are read (through their parent): the one that a late writer used may be any of them, and an
-- index probe that finds nothing is cheap (G1).
--
-- Parameters: i_sub_id: whose retried events belong to it; null: nobody's.
-- Returns: SQL text, in no order.
-- Writes: nothing.
create or replace function pgq.range_sql(i_data_pfx text, i_last txid_snapshot, i_next txid_snapshot, i_sub_id int)
returns text language plpgsql as $$
declare
    v_ended text;
    v_columns constant text := 'ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4';
    v_from constant text := format(case when i_sub_id is null then 'select %s from %s where ev_owner is null'
        else 'select %s from %s where (ev_owner is null or ev_owner = %s)' end, v_columns, pgq.quote_fqname(i_data_pfx), i_sub_id);
    v_sql text := format('%s and ev_txid >= %s and ev_txid < %s', v_from, txid_snapshot_xmax(i_last), txid_snapshot_xmax(i_next));
begin
    if exists (select from txid_snapshot_xip(i_next) x where x >= txid_snapshot_xmax(i_last)) then
        v_sql := v_sql || format(' and txid_visible_in_snapshot(ev_txid, %L)', i_next);
    end if;
    select string_agg(x::text, ',') into v_ended
      from txid_snapshot_xip(i_last) x where txid_visible_in_snapshot(x, i_next);
    if v_ended is not null then
        v_sql := v_sql || format(' union all %s and ev_txid = any (%L)', v_from, '{' || v_ended || '}');
    end if;
    return v_sql;
end
$$;
comment on function pgq.range_sql(text, txid_snapshot, txid_snapshot, int) is 'The query of the events between two snapshots.';
