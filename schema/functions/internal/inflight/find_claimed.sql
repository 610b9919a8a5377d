-- The events of a claim, with what was counted.
-- Parameters: i_ids: null: all of them.
-- Raises: PQ012 as read_copies.
create or replace function pgq.find_claimed(
    s pgq.registration, i_token bigint, i_ids bigint[], out attempts int,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql as $$
declare
    c_columns constant text := 'ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, '
        'ev_extra2, ev_extra3, ev_extra4';
    m record;
    v_count int;
begin
    select array_agg(e.id order by run_ord, n) as ids, array_agg(e.place order by run_ord, n) as places,
           array_agg(run_table::int order by run_ord, n) as tables,
           array_agg(run_attempts order by run_ord, n) as attempts
      into m
      from pgq.inflight
     cross join unnest(run_ids, run_places) with ordinality e (id, place, n)
     where run_sub = s.sub_id and run_token = i_token and i_token > 0
       and (i_ids is null or e.id = any (i_ids));
    if m.ids is null then
        return;
    end if;
    return query execute (
        select string_agg(format('select attempts, %s from unnest($1, $2, $3, $4) x (id, place, '
                   't, attempts) join pgq.%I e on e.ctid = place and ev_id = id where t = %s',
                   c_columns, pgq.event_table(s.sub_queue, t), t), ' union all ')
          from (select distinct t from unnest(m.tables) t) t)
        using m.ids, m.places, m.tables, m.attempts;
    get diagnostics v_count = row_count;
    if v_count < cardinality(m.ids) then
        return query
        select m.attempts[e.n], e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data,
               e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
          from pgq.read_copies(s.sub_queue, m.ids, m.places, m.tables, v_count) e;
    end if;
end $$;
