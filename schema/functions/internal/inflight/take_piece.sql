-- Reads the next piece of a large range, and deletes it.
-- Parameters: i_key: an SQL expression: the key of an event.
-- Returns: the events, by id; null: none of them is left.
-- Raises: as range_sql.
-- Writes: delete pgq.piece.
create or replace function pgq.take_piece(
    s pgq.registration, i_front bigint, i_group bigint, i_key text, out ids bigint[],
    out places tid[], out tables int[], out keys bigint[])
language plpgsql as $$
declare
    p pgq.piece;
    v_sql text;
begin
    for p in
        delete from pgq.piece
         where piece_sub = s.sub_id and piece_front = i_front and piece_group = i_group
        returning *
    loop
        v_sql := concat_ws(' union all ', v_sql, format('select ev_id, ctid as place, %s as t, '
            '%s as key from (%s) e', p.piece_table, i_key, pgq.range_sql(s.sub_queue,
                p.piece_start, p.piece_end, s.sub_id, null, s.sub_filter, ', ctid', p.piece_table,
                format(' and ctid >= %L and ctid <= %L and ev_id >> 10 = %L', p.piece_first,
                    p.piece_last, p.piece_group))));
    end loop;
    execute 'select array_agg(ev_id order by ev_id), array_agg(place order by ev_id), '
        'array_agg(t order by ev_id), array_agg(key order by ev_id) from (' || v_sql || ') e'
       into ids, places, tables, keys;
end $$;
