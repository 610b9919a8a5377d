-- The events at the given places of the event tables; those whose table was truncated since, from
-- their copies: see copy_inflight.
--
-- The copies are looked for in a later statement. One that waited for a truncation finds nothing in
-- the table, and its snapshot is from before the copies.
-- Parameters: arrays, whose elements with the same index belong to one event.
-- Returns: n, the index; the events, those of one table in the order of n.
-- Raises: PQ012 an event is in neither: its table was rewritten.
create or replace function pgq.read_events(
    i_queue_id int, i_ids bigint[], i_places tid[], i_tables int[], out n bigint,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql as $$
declare
    v_count int;
    v_found int := 0;
begin
    for t in 0 .. coalesce((select max(t) from unnest(i_tables) t), -1) loop
        continue when t <> all (i_tables);
        return query execute format(
            'select n, ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, '
            'ev_extra3, ev_extra4 from unnest($1, $2, $3) with ordinality x (id, place, t, n) '
            'join pgq.%I e on e.ctid = place and ev_id = id where t = $4',
            pgq.event_table(i_queue_id, t)) using i_ids, i_places, i_tables, t;
        get diagnostics v_count = row_count;
        v_found := v_found + v_count;
    end loop;
    if v_found < cardinality(i_ids) then
        return query
        select x.n, c.ev_id, c.ev_time, c.ev_txid, c.ev_retry, c.ev_type, c.ev_data, c.ev_extra1,
               c.ev_extra2, c.ev_extra3, c.ev_extra4
          from unnest(i_ids, i_places, i_tables) with ordinality x (id, place, t, n)
          join pgq.inflight_copy c on c.copy_queue = i_queue_id and c.ev_id = x.id
           and c.copy_table = x.t and c.copy_place = x.place
         order by x.n;
        get diagnostics v_count = row_count;
        if v_found + v_count < cardinality(i_ids) then
            raise exception 'events in flight have moved: an event table was rewritten'
                using errcode = 'PQ012', hint = (
                    select format('select pgq.repair_queue(%L)', queue_name)
                      from pgq.queue where queue_id = i_queue_id);
        end if;
    end if;
end $$;
