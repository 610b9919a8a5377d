-- Inserts rows of a captured table as events of type schema.table.snapshot: see copy_chunk.
-- Parameters: i_table: the table that has the triggers. i_key: the columns of their keys. i_datas,
--   i_keys: as capture_rows returns them. i_ids: the events get the first ones.
-- Returns: the other ids.
-- Raises: PQ006, PQ007 as insert_event; PQ009 the queue does not capture the table by this key, or
--   there are fewer ids than rows; PQ012 as check_moved.
-- Writes: insert into the queue's current table; nextval of its sequence, as in insert_event_raw.
create or replace function pgq.insert_chunk(
    i_queue_name text, i_table regclass, i_key text[], i_datas text[], i_keys text[],
    i_ids int8multirange)
returns int8multirange language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    q constant pgq.queue := pgq.find_queue(i_queue_name);
    c_name constant text := pgq.table_name(i_table);
    c_rows constant int := cardinality(i_datas);
    v_ids bigint[];
    v_name text;
begin
    select args[2] into v_name
      from pg_trigger cross join pgq.trigger_args(tgargs) args
     where tgrelid = i_table and tgfoid = 'pgq.capture()'::regprocedure and tgtype & 1 > 0
       and tgenabled in ('O', 'A') and args[1] = i_queue_name and args[3:] = i_key;
    if not found then
        raise exception 'queue % does not capture table % by (%)', i_queue_name, c_name,
            array_to_string(i_key, ', ') using errcode = 'PQ009',
            hint = format('pgqpy capture add %s --queue %s', i_table, i_queue_name);
    end if;
    v_ids := array(  -- in FROM, generate_series would make all ids first
        select generate_series(lower(r), upper(r) - 1) from unnest(i_ids) r limit c_rows);
    if cardinality(v_ids) < c_rows then
        raise exception '% ids are too few for % rows', cardinality(v_ids), c_rows
            using errcode = 'PQ009', hint = 'reserve more: pgq.reserve_event_ids';
    end if;
    if q.queue_disable_insert or q.queue_per_tx_limit is not null then
        perform pgq.count_insert(i_queue_name, q.queue_id, q.queue_disable_insert,
            q.queue_per_tx_limit, c_rows);
    end if;
    execute format($sql$
        insert into pgq.%I (ev_id, ev_time, ev_type, ev_data, ev_extra1)
        select id, now(), $4, data, key from unnest($1, $2, $3) e (id, data, key)$sql$,
        pgq.event_table(q.queue_id, q.queue_cur_table))
        using v_ids, i_datas, i_keys, v_name || '.snapshot';
    perform nextval(q.queue_event_seq::regclass);  -- shows a ticker that there are new events
    perform pgq.cover_id(q, v_ids[c_rows]);
    perform pgq.check_moved(q);
    return i_ids - int8multirange(int8range(v_ids[1], v_ids[c_rows] + 1));
end $$;
comment on function pgq.insert_chunk is 'Inserts rows of a captured table as events.';
