-- Events of an open batch by id and txid. The event tables have no index on ev_id, so a search by
-- id alone reads the whole batch. With the txids it is one index probe a transaction, however many
-- ids are asked for. The settings are those of get_batch_events. A large batch may hold an id
-- twice, with two txids: an event and its retried copy.
-- Returns: rows of pgq.event_template; ev_owner is null.
-- Raises: PQ003 batch not found; PQ004 an id is not in the batch, or finish_part finished it; PQ009
--   arrays of different lengths; PQ012, 40001, 42501 as batch_event_sql.
-- Writes: as batch_event_sql.
create or replace function pgq.find_batch_events(
    x_batch_id bigint, x_event_ids bigint[], x_event_txids bigint[])
returns setof pgq.event_template language plpgsql as $$
declare
    v_found bigint;
begin
    if cardinality(x_event_ids) is distinct from cardinality(x_event_txids) then
        raise exception 'event ids and txids differ in number' using errcode = 'PQ009';
    end if;
    return query execute format($sql$
        select ev_id, ev_time, ev_txid, null::int, ev_retry,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
          from (%s) e
         where ev_txid = any ($1) and (ev_id, ev_txid) in (select * from unnest($2, $1))$sql$,
        pgq.batch_event_sql(x_batch_id))
        using x_event_txids, x_event_ids;
    get diagnostics v_found = row_count;
    if v_found < (select count(distinct u) from unnest(x_event_ids, x_event_txids) u) then
        raise exception 'event not found' using errcode = 'PQ004',
            detail = format('%s of these events are in batch %s', v_found, x_batch_id);
    end if;
end $$;
