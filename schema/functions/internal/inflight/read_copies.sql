-- The copies of events in flight that are no longer in their event tables: see copy_inflight.
--
-- The caller has looked into the tables in an earlier statement. A statement that waited for a
-- truncation has a snapshot from before the copies; the next one sees them.
-- Parameters: arrays, whose elements with the same index belong to one event. i_count: how many
--   the caller found in the tables.
-- Returns: n, the index; events in the order of n.
-- Raises: PQ012 an event is in neither: its table was rewritten.
create or replace function pgq.read_copies(
    i_queue_id int, i_ids bigint[], i_places tid[], i_tables int[], i_count int, out n bigint,
    out ev_id bigint, out ev_time timestamptz, out ev_txid bigint, out ev_retry int,
    out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql as $$
declare
    v_count int;
begin
    return query execute (
        select string_agg(format('select n, c.ev_id, c.ev_time, c.ev_txid, c.ev_retry, c.ev_type, '
                   'c.ev_data, c.ev_extra1, c.ev_extra2, c.ev_extra3, c.ev_extra4 '
                   'from unnest($1, $2, $3) with ordinality x (id, place, t, n) '
                   'join pgq.inflight_copy c on c.copy_queue = %s and c.ev_id = id '
                   'and c.copy_table = t and c.copy_place = place where t = %s and not exists ('
                   'select from pgq.%I e where e.ctid = place and e.ev_id = id)', i_queue_id, t,
                   pgq.event_table(i_queue_id, t)), ' union all ')
          from (select distinct t from unnest(i_tables) t) t) || ' order by n'
        using i_ids, i_places, i_tables;
    get diagnostics v_count = row_count;
    if i_count + v_count < cardinality(i_ids) then
        raise exception 'events in flight have moved: an event table was rewritten'
            using errcode = 'PQ012', hint = (
                select format('select pgq.repair_queue(%L)', queue_name)
                  from pgq.queue where queue_id = i_queue_id);
    end if;
end $$;
