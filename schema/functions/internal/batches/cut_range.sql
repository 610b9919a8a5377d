-- Cuts the range after a shared consumer's position into parts of about i_wanted events, at most
-- 128, so that several workers handle one large transaction. The cuts are ids, because they are the
-- order of a batch. Events are counted: end_seq minus start_seq is no measure, see range_txids. A
-- small range is read up to i_wanted events. Of a large one, a sample of about 20,000 ids is
-- sorted. To cut a million takes 0.2 s, under the consumer's lock.
--
-- No index has the ids: each part is read by a scan of the range's transactions, 0.2 to 0.5 s for
-- 1,000 of a million events of one transaction. So parts are for handlers that take longer than
-- that; take_part hands out several at once.
-- Returns: the last id of each part but the last one; null: the range is small.
-- Raises: 42501 as range_sql.
create or replace function pgq.cut_range(p pgq.current_position, i_next_tick bigint, i_wanted int)
returns bigint[] language plpgsql as $$
declare
    s pgq.tick;
    e pgq.tick;
    v_sql text;
    v_count bigint;
    v_cuts bigint[];
begin
    if i_wanted is null then
        return null;
    end if;
    select * into s from pgq.tick
     where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1;
    select * into e from pgq.tick
     where tick_queue = p.sub_queue and tick_id = i_next_tick limit 1;
    v_sql := pgq.range_sql(
        p.sub_queue, s.tick_snapshot, e.tick_snapshot, p.sub_id, null, p.sub_filter);
    execute format('select count(*) from (select from (%s) e limit %s) bounded',
        v_sql, i_wanted::bigint + 1) into v_count;
    if v_count <= i_wanted then
        return null;
    end if;
    execute format('select count(*) from (%s) e', v_sql) into v_count;
    execute format($sql$
        select array(select distinct cut from unnest(percentile_disc(array(
                   select g / n::float8 from generate_series(1, n - 1) g))
               within group (order by ev_id)) cut order by cut)
          from (%s) e, (select least(128, ceil(%s / %s::float8))::int as n) parts
         where pg_catalog.hashint8(ev_id) %% %s = 0
         group by n$sql$, v_sql, v_count, i_wanted, greatest(v_count / 20000, 1)) into v_cuts;
    return nullif(v_cuts, '{}');
end $$;
