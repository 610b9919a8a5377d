-- The transactions of the events that one tick's snapshot sees and an earlier tick's does not, one
-- id for each event. So the number of ids is the number of events.
--
-- The difference of two tick_event_seq says less. An event's id is counted by the first tick after
-- nextval(), its row is seen by the first tick after the commit. The events of a transaction that
-- was open at a tick are in a later range, whose sequence need not have moved.
--
-- The query reads what range_sql reads, with the events of released stages. It leaves filters,
-- owners and cancelled events alone, as the difference of ids does. The lists of all consumers call
-- it, which one queue must neither break nor delay: see read_sequence.
-- Parameters: i_start, i_end: the snapshots of the two ticks.
-- Returns: at most i_most ids, in no order; null when they cannot be read: a table is damaged, or
--   another session holds its lock, or waits for it, for more than 100 ms.
-- Raises: 40P01.
create or replace function pgq.range_txids(
    i_queue_id int, i_start txid_snapshot, i_end txid_snapshot, i_most bigint)
returns bigint[] language plpgsql set lock_timeout = '100ms' as $$
declare
    v_first constant bigint := txid_snapshot_xmax(i_start);
    v_end constant bigint := txid_snapshot_xmax(i_end);
    v_late constant bigint[] := array(  -- txid_visible_in_snapshot would read i_end for each x
        select x from txid_snapshot_xip(i_start) x where x < v_end
        except select txid_snapshot_xip(i_end));
    v_table constant text := pgq.event_table(i_queue_id);
    r record;
    v_sql text;
    v_txids bigint[];
begin
    r := pgq.find_range_stages(i_queue_id, v_first, v_end, v_late, i_end, null);
    v_sql := format('select ev_txid as txid from pgq.%I where ev_txid >= $1 and ev_txid < $2 '
        'and ev_txid <> all ($5) and txid_visible_in_snapshot(ev_txid, $3)', v_table);
    if v_late <> '{}' then
        v_sql := v_sql || format(' union all select ev_txid from pgq.%I '
            'where ev_txid = any ($4) and ev_txid <> all ($5)', v_table);
    end if;
    if r.released is not null then
        v_sql := v_sql || format(' union all select released_by '
            'from unnest($6, $7) released (stage, released_by) '
            'cross join lateral (select from pgq.%I where ev_txid = stage offset 0) e', v_table);
    end if;
    execute format('select array_agg(txid) from (%s limit $8) found', v_sql) into v_txids
      using v_first, v_end, i_end, v_late, r.hidden, r.released, r.released_by, i_most;
    return coalesce(v_txids, '{}');
exception
    when deadlock_detected then
        raise;
    when others then
        return null;
end $$;
