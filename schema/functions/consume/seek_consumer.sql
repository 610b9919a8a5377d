-- Moves a subscribed consumer to a tick or a time. Its next batch begins there: see
-- register_consumer_at, which moves it. Open batches are lost, also those of subconsumers, and
-- their holders find that out (G5). A process that runs the consumer goes on at the new place.
--
-- Retried events that come again from there are dropped: those with an id beyond the tick's. With
-- i_discard, all retried events are dropped. Retried copies in the event tables are not deleted: no
-- index finds them, and event tables have no dead rows (G6). A snapshot, taken after the delete,
-- says which of them the subscription does not take any more: see range_sql. The delete waits for a
-- maint_retry_events that has moved one of its rows, so the snapshot sees that copy. A bound of
-- xids would not do: a maint_retry_events that began before may have a small xid, and still move
-- what is retried later.
--
-- The locks come first. So no rotation or compaction comes between the search for the tick and the
-- move, and no session is about to retry an event.
-- Parameters: i_tick, i_time: one of the two; a time as in get_tick_at, -infinity is the first tick
--   that can be read from.
-- Returns: the tick and its time; dropped: how many retried events that waited were deleted.
-- Raises: PQ001; PQ002 not a subscriber; PQ009 none or both of i_tick and i_time; PQ005, PQ016 the
--   place cannot be reached; PQ012 as check_moved; PQ013 not READ COMMITTED: the snapshot is to be
--   younger than the locks; PQ017 a stream reads from ticks by this subscription; PQ020 a
--   subconsumer.
-- Writes: row lock pgq.registration; as register_consumer_at; delete pgq.retry_queue; update
--   pgq.registration.
create or replace function pgq.seek_consumer(
    i_queue_name text, i_consumer_name text, i_tick bigint, i_discard boolean default false,
    i_time timestamptz default null, out tick_id bigint, out tick_time timestamptz,
    out dropped bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    q pgq.queue;
    p pgq.current_position;
    t pgq.tick;
    v_first pgq.tick;
    v_place bigint;
    v_last bigint;
    v_above bigint := -9223372036854775808;
begin
    perform pgq.check_isolation('a seek');
    if (i_tick is null) = (i_time is null) then
        raise exception 'a seek needs a tick or a time' using errcode = 'PQ009',
            hint = 'one of both; the times -infinity and infinity are the beginning and the end';
    end if;
    perform from pgq.queue where queue_name = i_queue_name for key share;
    q := pgq.find_queue(i_queue_name);
    p.sub_id := pgq.find_subscription(i_queue_name, i_consumer_name);
    perform from pgq.registration where sub_id = p.sub_id for update;
    perform from pgq.registration where sub_parent = p.sub_id order by sub_id for update;
    select * into p from pgq.current_position where sub_id = p.sub_id;
    if not found then  -- unregistered while we waited
        raise exception 'Not subscriber to queue: %/%', i_queue_name, i_consumer_name
            using errcode = 'PQ002';
    elsif p.sub_parent is not null then
        perform pgq.raise_wrong_mode(i_queue_name, i_consumer_name, p.sub_mode);
    elsif p.pos_pins is not null then
        raise exception 'a stream reads from ticks by the subscription %/%', i_queue_name,
            i_consumer_name using errcode = 'PQ017', detail = format('tick_id=%s', p.pos_last_tick),
            hint = 'the checkpoint of a stream decides where it reads: start it with a new one. If '
                'the stream is gone, unregister this consumer, and register it again';
    end if;
    -- The snapshot below is compared with the xids of retried copies: they must be this cluster's.
    perform pgq.check_moved(q);
    select * into v_first from pgq.tick
     where tick_queue = q.queue_id and tick_id >= q.queue_low_tick order by tick_id limit 1;
    v_place := case when i_time = '-infinity' then v_first.tick_id
                    when i_time is not null then pgq.get_tick_at(i_queue_name, i_time)
                    else i_tick end;
    select * into t from pgq.tick
     where tick_queue = q.queue_id and tick_id = v_place and tick_id >= v_first.tick_id limit 1;
    if not found then
        select max(tick_id) into v_last from pgq.tick where tick_queue = q.queue_id;
        raise exception using
            errcode = case when i_tick >= v_first.tick_id then 'PQ005' else 'PQ016' end,
            message = format('cannot seek to %s: the earliest tick of queue %s is %s, of %s',
                coalesce('tick ' || i_tick, i_time::text), i_queue_name, v_first.tick_id,
                v_first.tick_time) || coalesce('; the last one before it is ' || (
                    select max(tick_id) from pgq.tick
                     where tick_queue = q.queue_id and tick_id < i_tick
                       and i_tick > v_first.tick_id), ''),
            detail = concat('tick_id=' || i_tick || ', ', 'first_tick=', v_first.tick_id,
                ', last_tick=', v_last),
            hint = 'seek to the beginning, or to a later place';
    end if;
    tick_id := t.tick_id;
    tick_time := t.tick_time;
    if not i_discard then
        v_above := t.tick_event_seq;
    end if;
    delete from pgq.retry_queue where ev_owner = p.sub_id and ev_id > v_above;
    get diagnostics dropped = row_count;
    -- What an earlier seek dropped above v_above is dropped by this one. Copies that every tick
    -- sees are never read.
    update pgq.registration
       set (sub_dropped, sub_dropped_above) = (
            select array_agg(dropped), array_agg(above)
              from (select * from unnest(sub_dropped, sub_dropped_above) d (dropped, above)
                     where above < v_above and txid_snapshot_xmax(dropped)
                           > txid_snapshot_xmin(v_first.tick_snapshot)
                    union all
                    select pgq.exclude_own_xid(txid_current_snapshot()), v_above) kept)
     where sub_id = p.sub_id;
    perform pgq.register_consumer_at(i_queue_name, i_consumer_name, tick_id);
end $$;
comment on function pgq.seek_consumer is 'Moves a consumer to a tick or a time.';
