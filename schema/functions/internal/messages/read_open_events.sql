-- The first events of an open batch, for receive. An id that is there twice, as an event and its
-- retried copy, is one event here: the copy.
-- Returns: null when there is none.
-- Raises: PQ003 batch not found; PQ012, 40001, 42501 as batch_event_sql.
-- Writes: as batch_event_sql.
create or replace function pgq.read_open_events(x_batch_id bigint, x_limit int)
returns pgq.event_template[] language plpgsql as $$
declare
    v_events pgq.event_template[];
begin
    execute format($sql$
        select array_agg(e::pgq.event_template order by ev_id)
          from (select distinct on (ev_id) ev_id, ev_time, ev_txid, null::int, ev_retry,
                       ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
                  from (%s) b order by ev_id, ev_txid desc limit %s) e$sql$,
        pgq.batch_event_sql(x_batch_id), x_limit) into v_events;
    return v_events;
end $$;
