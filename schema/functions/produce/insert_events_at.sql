-- Inserts many events that are due at one time: insert_event_at for arrays.
-- Parameters: the arrays are those of insert_events.
-- Returns: the ids, in the arrays' order.
-- Raises: as insert_event_at; PQ009 as insert_events.
-- Writes: as insert_event_at.
create or replace function pgq.insert_events_at(
    i_queue_name text, i_deliver_at timestamptz, ev_types text[], ev_datas text[],
    ev_extra1s text[] default null, ev_extra2s text[] default null, ev_extra3s text[] default null,
    ev_extra4s text[] default null)
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
begin
    if i_deliver_at <= clock_timestamp() then
        return query select * from pgq.insert_events(i_queue_name, ev_types, ev_datas,
            ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s);
        return;
    end if;
    perform pgq.check_arrays(ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s);
    q := pgq.begin_delayed(i_queue_name, i_deliver_at, cardinality(ev_types));
    return query
    with ordered as materialized (
        select * from unnest(ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s)
               with ordinality u (t, d, e1, e2, e3, e4, n)
         order by n)
    insert into pgq.delayed_event (ev_deliver_at, ev_queue, ev_id, ev_time, ev_txid,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
    select i_deliver_at, q.queue_id, nextval(q.queue_event_seq::regclass), now(), txid_current(),
           t, d, e1, e2, e3, e4
      from ordered
    returning ev_id;
end $$;
comment on function pgq.insert_events_at is 'Inserts many events that are due at one time.';
