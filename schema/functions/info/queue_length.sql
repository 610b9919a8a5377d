-- How many events a consumer has still to handle, exactly: those that it will get, those in flight
-- or in its open batch that are not done, and those that are retried. It reads the events, so a
-- long backlog takes time.
--
-- A refill, or the end of a batch, may move events from one of these to another. So one statement
-- counts them all, and counts again if the front or the position has moved since it was prepared.
-- Raises: PQ002 not a subscriber; PQ020 it is a subconsumer, or has some; as range_sql,
--   check_snapshot.
-- Writes: as check_snapshot.
create or replace function pgq.queue_length(i_queue_name text, i_consumer_name text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    p pgq.current_position;
    f pgq.front;
    v_start txid_snapshot;
    v_opened txid_snapshot;  -- the end of the open batch
    v_pieces text;
    v_count bigint;
    v_same boolean := false;
begin
    perform pgq.check_snapshot();
    while not v_same loop
        select * into p from pgq.current_position where sub_id = c_sub;
        if p.sub_parent is not null
                or exists (select from pgq.registration where sub_parent = c_sub) then
            raise exception 'the events of %/% are shared out in batches of subconsumers',
                i_queue_name, i_consumer_name using errcode = 'PQ020',
                hint = 'get_consumer_info estimates their number';
        end if;
        select * into f from pgq.front where front_sub = c_sub order by front_no desc limit 1;
        select tick_snapshot into v_start from pgq.tick
         where tick_queue = p.sub_queue and tick_id = p.pos_last_tick limit 1;
        select tick_snapshot into v_opened from pgq.tick
         where tick_queue = p.sub_queue and tick_id = p.pos_next_tick limit 1;
        select string_agg(format(' + (select count(*) from (%s) e where ev_id >> 10 in (select '
                   'piece_group from pgq.piece where piece_sub = %L and piece_front = %L))',
                   pgq.range_sql(p.sub_queue, piece_start, piece_end, c_sub, null, p.sub_filter),
                   c_sub, piece_front), '')
          into v_pieces
          from (select distinct on (piece_front) * from pgq.piece where piece_sub = c_sub) piece;
        execute format($sql$
            select (select count(*) from (%s) e
                     where not coalesce(txid_visible_in_snapshot(ev_txid, $2)
                               and ev_id <= $3, false))
                   + (select coalesce(sum(cardinality(run_ids)), 0)
                        from pgq.inflight where run_sub = $1)
                   + (select count(*) from pgq.retry_queue where ev_owner = $1)
                   %s,
                   (select max(front_no) from pgq.front where front_sub = $1)
                       is not distinct from $4 and $5 = (
                    select pos_no from pgq.current_position where sub_id = $1)$sql$,
            pgq.range_sql(p.sub_queue, coalesce(f.front_snapshot, v_start),
                txid_current_snapshot(), c_sub, null, p.sub_filter), v_pieces)
           into v_count, v_same
          using c_sub, v_opened, p.pos_from, f.front_no, p.pos_no;
    end loop;
    return v_count;
end $$;
comment on function pgq.queue_length is 'How many events a consumer has still to handle.';
