-- The events of a claim, with their attempts.
-- Parameters: i_ids: null: all of them.
-- Raises: PQ012 as read_events.
create or replace function pgq.find_claimed(
    s pgq.registration, i_token bigint, i_ids bigint[], out attempts int,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language sql as $$
    select m.attempts[e.n], e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data,
           e.ev_extra1, e.ev_extra2, e.ev_extra3, e.ev_extra4
      from (select array_agg(x.id) as ids, array_agg(x.place) as places,
                   array_agg(run_table::int) as tables, array_agg(run_attempts) as attempts
              from pgq.inflight cross join unnest(run_ids, run_places) x (id, place)
             where run_sub = s.sub_id and run_token = i_token and i_token > 0
               and (i_ids is null or x.id = any (i_ids))) m
     cross join lateral pgq.read_events(s.sub_queue, m.ids, m.places, m.tables) e
$$;
