-- Reads the events between two snapshots.
-- Parameters: i_key: an SQL expression: the key of an event. i_most: so many at most, in no order.
-- Returns: the events, by id; null: there are none.
-- Raises: as range_sql.
create or replace function pgq.read_new(
    s pgq.registration, i_start txid_snapshot, i_end txid_snapshot, i_key text, i_most int,
    out ids bigint[], out places tid[], out tables int[], out keys bigint[])
language plpgsql as $$
begin
    execute format('select array_agg(ev_id order by ev_id), array_agg(ctid order by ev_id), '
        'array_agg(t.number order by ev_id), array_agg(%s order by ev_id) '
        'from (select * from (%s) e limit %s) e '
        'join unnest($1, $2) t (id, number) on t.id = e.tableoid', i_key,
        pgq.range_sql(s.sub_queue, i_start, i_end, s.sub_id, null, s.sub_filter,
            ', tableoid, ctid'), i_most)
       into ids, places, tables, keys
      using (select array_agg(to_regclass('pgq.' || pgq.event_table(queue_id, n))::oid order by n)
               from pgq.queue, generate_series(0, queue_ntables - 1) n
              where queue_id = s.sub_queue), (
             select array_agg(n order by n) from pgq.queue, generate_series(0, queue_ntables - 1) n
              where queue_id = s.sub_queue);
end $$;
