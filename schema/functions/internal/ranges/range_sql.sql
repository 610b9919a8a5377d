-- The query of the events that one tick's snapshot sees and an earlier tick's does not.
--
-- "ev_txid >= xmin of the start tick" would be right and simple. But xmin stands still while any
-- transaction is open, so each batch would read everything since that transaction began. Here the
-- range goes from xmax to xmax. The transactions that were in progress at the start tick and had
-- ended by the end tick are listed, with one index probe each. Events of those that rolled back are
-- invisible anyway (G2). All tables of the queue are read, through their parent: a late writer may
-- have used any of them, and an index probe that finds nothing is cheap (G1).
--
-- The events of a stage are left out where their own transaction would have them, and added where
-- the releasing transaction is, under its id. The text lists the stages, so that it selects the
-- same events whatever becomes of them. OFFSET 0 makes it one index probe a stage: as a plain join,
-- planned without statistics, a hundred stages read the whole index.
--
-- Row-level security on the event table would hide events from the role that runs the text, and
-- hidden events are lost. That session may not set row_security = off, so there is no text.
--
-- A filter leaves out events of the queue, and no retried events of the subscription: it took them
-- before.
--
-- Events that were cancelled before a subscription had them are left out of its batches, and of
-- nothing else: see pgq.skipped_event. A range without any costs one index probe; otherwise it is
-- one an event, which OFFSET 0 ensures.
-- Parameters: i_start, i_end: the snapshots of the two ticks. i_sub_id: the subscription whose
--   retried events are included, and whose cancelled ones are not; null: none. i_stages: as in
--   tick_event_sql. i_filter: which events are taken, as check_filter returns it; null: all.
--   i_more: further columns, as SQL text. i_table: the number of a table, for its events only.
--   i_where: one more condition, that names their places, as SQL text that begins with and.
-- Returns: SQL text, in no order. It means the same whatever the search_path of the session is.
-- Raises: PQ009 a stage was not released in this range; 42501 the event table has row-level
--   security.
create or replace function pgq.range_sql(
    i_queue_id int, i_start txid_snapshot, i_end txid_snapshot, i_sub_id int, i_stages bigint[],
    i_filter jsonb, i_more text default '', i_table int default null, i_where text default '')
returns text language plpgsql as $$
declare
    v_first constant bigint := txid_snapshot_xmax(i_start);
    v_end constant bigint := txid_snapshot_xmax(i_end);
    v_late constant bigint[] := array(
        select x from txid_snapshot_xip(i_start) x where txid_visible_in_snapshot(x, i_end));
    v_dropped constant text := (
        select string_agg(format(' and not (ev_id operator(pg_catalog.>) %L and '
                   'pg_catalog.txid_visible_in_snapshot('
                   'ev_txid, %L::pg_catalog.txid_snapshot))', above, dropped), '')
          from pgq.registration
         cross join unnest(sub_dropped, sub_dropped_above) d (dropped, above)
         where sub_id = i_sub_id and txid_snapshot_xmax(dropped) > txid_snapshot_xmin(i_start));
    -- With i_where the rows come by their places: no index of transactions.
    v_txid constant text := case when i_where = '' then 'ev_txid'
        else '(ev_txid operator(pg_catalog.+) 0)' end;
    v_hidden bigint[] := '{}';
    v_released bigint[];
    v_released_by bigint[];
    v_columns constant text :=
        ', ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4' || i_more
        || ' from ';
    v_rows text := format('pgq.%I', pgq.event_table(i_queue_id, i_table))
        || ' where (ev_owner is null'
        || case when i_filter is null then ''
               else ' and ' || pgq.filter_sql(i_filter) end
        || coalesce(format(' or ev_owner operator(pg_catalog.=) %L', i_sub_id), '')
        || coalesce(v_dropped, '') || ')' || i_where;
    v_own text;
    v_hides boolean;
    v_staged boolean;
    v_skips boolean;
    v_sql text;
begin
    select relrowsecurity, exists (select from pgq.stage where stage_queue = i_queue_id), exists (
            select from pgq.skipped_event
             where skip_sub = i_sub_id and skip_txid >= least(v_first, v_late[1])
               and skip_txid < v_end)
      into v_hides, v_staged, v_skips from pg_class
     where relname = pgq.event_table(i_queue_id) and relnamespace = 'pgq'::regnamespace;
    if v_hides then
        raise exception 'row-level security may hide events of pgq.%', pgq.event_table(i_queue_id)
            using errcode = '42501', hint = format(
                'alter table pgq.%I disable row level security', pgq.event_table(i_queue_id));
    end if;
    if v_staged then
        select * into v_hidden, v_released, v_released_by
          from pgq.find_range_stages(i_queue_id, v_first, v_end, v_late, i_end, i_stages);
    end if;
    if v_skips or v_released is not null and exists (
            select from pgq.skipped_event
             where skip_sub = i_sub_id and skip_txid = any (v_released)) then
        v_rows := v_rows || format(' and not exists (select from pgq.skipped_event '
            'where skip_sub operator(pg_catalog.=) %L::pg_catalog.int4 '
            'and skip_txid operator(pg_catalog.=) ev_txid '
            'and skip_id operator(pg_catalog.=) ev_id offset 0)', i_sub_id);
    end if;
    v_own := 'select ev_id, ev_time, ev_txid' || v_columns || v_rows;
    if v_hidden <> '{}' then
        v_own := v_own || format(' and (ev_owner is not null or ev_txid operator(pg_catalog.<>) '
            'all (%L::pg_catalog.int8[]))', v_hidden);
    end if;
    v_sql := v_own || format(' and %1$s operator(pg_catalog.>=) %2$L '
        'and %1$s operator(pg_catalog.<) %3$L', v_txid, v_first, v_end);
    if exists (select from txid_snapshot_xip(i_end) x where x >= v_first) then
        v_sql := v_sql || format(' and pg_catalog.txid_visible_in_snapshot(ev_txid, '
            '%L::pg_catalog.txid_snapshot)', i_end);
    end if;
    if v_late <> '{}' then
        v_sql := v_sql || ' union all ' || v_own || format(' and %s operator(pg_catalog.=) '
            'any (%L::pg_catalog.int8[])', v_txid, v_late);
    end if;
    if i_stages is not null and cardinality(i_stages) <> coalesce(cardinality(v_released), 0) then
        raise exception 'not all of these stages were released in this range'
            using errcode = 'PQ009', detail = format('stages %s', i_stages),
            hint = 'name stages that pgq.get_tick_stages lists, each once';
    end if;
    if v_released is not null then
        v_sql := case when i_stages is null then v_sql || ' union all ' else '' end
            || 'select ev_id, ev_time, released_by as ev_txid' || v_columns
            || format('unnest(%L::bigint[], %L::bigint[]) released (stage, released_by), ',
                v_released, v_released_by)
            || 'lateral (select *' || i_more || ' from ' || v_rows
            || format(' and ev_owner is null and %s operator(pg_catalog.=) stage offset 0) e',
                v_txid);
    end if;
    return v_sql;
end $$;
