-- Reads the next piece of a large range, and deletes it.
-- Parameters: i_key: an SQL expression: the key of an event.
-- Returns: the events, in no order; empty: none of them is left.
-- Raises: as range_sql.
-- Writes: delete pgq.piece.
create or replace function pgq.take_piece(
    s pgq.registration, i_front bigint, i_group bigint, i_key text, out ids bigint[],
    out places tid[], out tables int[], out keys bigint[])
language plpgsql as $$
declare
    p pgq.piece;
    e record;
begin
    for p in
        delete from pgq.piece
         where piece_sub = s.sub_id and piece_front = i_front and piece_group = i_group
        returning *
    loop
        execute format('select array_agg(ev_id) as ids, array_agg(ctid) as places, '
            'array_agg(%s) as keys from (%s) e', i_key, pgq.range_sql(s.sub_queue, p.piece_start,
                p.piece_end, s.sub_id, null, s.sub_filter, ', ctid', p.piece_table,
                format(' and ctid >= %L and ctid <= %L and ev_id >> 10 = %L', p.piece_first,
                    p.piece_last, p.piece_group))) into e;
        ids := ids || e.ids;
        places := places || e.places;
        keys := keys || e.keys;
        tables := tables || array_fill(
            p.piece_table, array[coalesce(cardinality(e.ids), 0)]);
    end loop;
end $$;
