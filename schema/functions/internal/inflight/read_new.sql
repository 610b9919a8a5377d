-- Reads the events between two snapshots.
-- Parameters: i_key: an SQL expression: the key of an event. i_most: so many at most.
-- Returns: the events, in no order; null: there are none.
-- Raises: as range_sql.
create or replace function pgq.read_new(
    s pgq.registration, i_start txid_snapshot, i_end txid_snapshot, i_key text, i_most int,
    out ids bigint[], out places tid[], out tables int[], out keys bigint[])
language plpgsql as $$
declare
    v_names oid[] := array(
        select to_regclass('pgq.' || pgq.event_table(queue_id, n))
          from pgq.queue, generate_series(0, queue_ntables - 1) n
         where queue_id = s.sub_queue order by n);
begin
    execute format('select array_agg(ev_id), array_agg(ctid), '
        'array_agg(array_position($1, tableoid) - 1), array_agg(%s) '
        'from (select * from (%s) e limit %s) e', i_key, pgq.range_sql(s.sub_queue, i_start, i_end,
            s.sub_id, null, s.sub_filter, ', tableoid, ctid'), i_most)
       into ids, places, tables, keys using v_names;
end $$;
