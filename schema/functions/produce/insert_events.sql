-- Inserts many events with one call. The elements with the same index make an event; the ids go up
-- in the arrays' order. The call, not each event, costs the planning of one INSERT by EXECUTE.
-- Parameters: an extra array that is null stands for an array of nulls.
-- Returns: the ids, in the arrays' order.
-- Raises: as insert_event, check_arrays.
-- Writes: insert into the queue's current table; nextval of its sequence.
create or replace function pgq.insert_events(
    i_queue_name text, ev_types text[], ev_datas text[], ev_extra1s text[] default null,
    ev_extra2s text[] default null, ev_extra3s text[] default null, ev_extra4s text[] default null)
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_events constant int := cardinality(ev_types);
begin
    perform pgq.check_arrays(ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s);
    select * into q from pgq.queue where queue_name = i_queue_name;
    if q.queue_id is null or q.queue_disable_insert or q.queue_per_tx_limit is not null then
        perform pgq.count_insert(
            i_queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, v_events);
    end if;
    perform txid_current();  -- before the ids, as in build_insert_leaf
    return query execute format($sql$
        with ordered as materialized (
            select * from unnest($1, $2, $3, $4, $5, $6) with ordinality u (t, d, e1, e2, e3, e4, n)
             order by n)
        insert into pgq.%I (
            ev_id, ev_time, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select nextval(%L::regclass), now(), t, d, e1, e2, e3, e4 from ordered
        returning ev_id$sql$, pgq.event_table(q.queue_id, q.queue_cur_table), q.queue_event_seq)
        using ev_types, ev_datas, ev_extra1s, ev_extra2s, ev_extra3s, ev_extra4s;
end $$;
comment on function pgq.insert_events is 'Inserts many events with one call; returns their ids.';
