-- Parks events of an open batch: each waits, with all later events of its key, until it is taken by
-- take_parked. The caller finishes the events in the same transaction, by finish_part or
-- finish_batch: else events that it has handled are delivered again, behind what is parked.
--
-- For an event whose handler failed, the caller gives a delay. If no event of its key is parked, it
-- becomes the head, and is due after the delay. For an event behind a parked one the delay is null.
-- In a batch of take_parked the events are parked already. They stay where they are, a failed one
-- with a later time, and so do all events of their keys behind them, whatever the caller says.
--
-- A consumer that has no mode yet becomes plain: a shared consumer cannot take parked events. While
-- the key of lanes is being changed, events of the old lanes go to the retry queue: parked, one key
-- could be in an old and in a new lane.
-- Parameters: ids and txids as for event_retry, keys, delays, classes and texts of exceptions. The
--   elements with the same index belong to one event.
-- Returns: how many events were parked, or parked again.
-- Raises: PQ003 batch not found; PQ004 event not found; PQ009 arrays of different lengths, or a
--   NULL key; PQ020 the consumer is shared; 40001 as lock_batch, or in REPEATABLE READ another
--   session deleted parked events of a key; PQ012, 42501 as batch_event_sql.
-- Writes: as lock_batch, batch_event_sql; insert, update or key share lock pgq.parked;
--   update pgq.registration; as event_retry.
create or replace function pgq.event_park(
    x_batch_id bigint, x_event_ids bigint[], x_event_txids bigint[], x_keys text[],
    x_retry_after interval[], x_errors text[] default null, x_reasons text[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    b record;
    v_event record;
    v_last jsonb;
    v_count int := 0;
begin
    if cardinality(x_event_ids) is distinct from cardinality(x_keys)
            or cardinality(x_event_ids) is distinct from cardinality(x_retry_after)
            or cardinality(x_errors) <> cardinality(x_event_ids)
            or cardinality(x_reasons) <> cardinality(x_event_ids) then
        raise exception 'event ids, keys and delays differ in number' using errcode = 'PQ009',
            hint = 'errors and reasons are null, or have one element for each event';
    elsif array_position(x_keys, null) is not null then
        raise exception 'Invalid NULL value: a key' using errcode = 'PQ009',
            hint = 'an event without a key keeps no order: call event_retry';
    elsif (pgq.lock_batch(x_batch_id, false)).pos_sub is null then
        raise exception 'batch not found' using errcode = 'PQ003',
            detail = format('batch %s', x_batch_id);
    end if;
    select f.*, r.sub_mode, r.sub_parent into b
      from pgq.find_batch(x_batch_id) f
      join pgq.registration r on r.sub_id = f.owner;
    if b.sub_mode = 'shared' then
        perform pgq.raise_wrong_mode(b.queue_name, b.consumer_name, 'shared');
    elsif b.start_tick = b.end_tick then
        if not x_event_ids <@ b.pos_ids then
            raise exception 'event not found' using errcode = 'PQ004',
                detail = format('not all of these events are in batch %s', x_batch_id);
        end if;
        for v_event in
            select distinct on (1) *
              from unnest(x_event_ids, x_retry_after, x_errors, x_reasons)
                   u (id, after, error, reason)
        loop  -- one by one: a plan without statistics would read all parked events
            update pgq.parked
               set park_batch = x_batch_id,
                   park_after = coalesce(clock_timestamp() + v_event.after, park_after),
                   park_error = case when v_event.after is null then park_error
                                     else coalesce(v_event.error, '') end,
                   park_reason = case when v_event.after is null then park_reason
                                      else v_event.reason end,
                   ev_retry = case when v_event.after is null then ev_retry
                                   else pgq.add_tries(ev_retry, 1) end
             where ev_owner = b.owner and ev_id = v_event.id;
            v_count := v_count + 1;
        end loop;
        return v_count;
    elsif b.sub_mode = 'lanes' and pgq.key_changes(x_batch_id) then
        return pgq.event_retry(x_batch_id, x_event_ids, x_event_txids, array(
            select coalesce(after, interval '0') from unnest(x_retry_after) after));
    else
        if b.sub_mode is null then
            update pgq.registration set sub_mode = 'plain' where sub_id = b.owner;
        end if;
        -- Once a key: a search for each event would walk over all rows that the INSERT has made.
        select jsonb_object_agg(key, no) into v_last
          from (select distinct key from unnest(x_keys) key) keys
         cross join lateral (
                select max(park_no) as no from pgq.parked
                 where ev_owner = b.owner and park_key = key) last
         where no is not null;
        if current_setting('transaction_isolation') <> 'read committed' then
            -- A snapshot may show rows that delete_parked or cancel_event has deleted since. The
            -- events behind them would have no head, and never come: the lock fails then.
            for v_event in select key, value::bigint as no from jsonb_each_text(v_last) loop
                perform from pgq.parked
                  where ev_owner = b.owner and park_key = v_event.key and park_no = v_event.no
                    for key share;
            end loop;
        end if;
        insert into pgq.parked (park_key, park_no, park_after, park_error, park_reason, ev_queue,
               ev_id, ev_time, ev_txid, ev_owner, ev_retry,
               ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
        select n.key, coalesce((v_last ->> n.key)::bigint, 0) + n.number,
               case when (v_last ? n.key) is not true and n.number = 1
                   then clock_timestamp() + coalesce(n.after, interval '0') end,
               case when n.after is not null then coalesce(n.error, '') end, n.reason, b.queue_id,
               n.ev_id, n.ev_time, n.ev_txid, b.owner,
               case when n.after is null then n.ev_retry else pgq.add_tries(n.ev_retry, 1) end,
               n.ev_type, n.ev_data, n.ev_extra1, n.ev_extra2, n.ev_extra3, n.ev_extra4
          from (
                select e.*, u.*,
                       row_number() over (partition by u.key order by e.ev_id, e.ev_txid) as number
                  from pgq.find_batch_events(x_batch_id, x_event_ids, x_event_txids) e
                  join (select distinct on (1) *
                          from unnest(x_event_ids, x_keys, x_retry_after, x_errors, x_reasons))
                       u (id, key, after, error, reason) on u.id = e.ev_id) n
        on conflict (ev_owner, ev_id) do nothing;
    end if;
    get diagnostics v_count = row_count;
    if v_count < cardinality(x_event_ids) then
        -- Where the first event of a new key is parked already, under another key, the next one
        -- is the head.
        update pgq.parked p set park_after = clock_timestamp()
         where ev_owner = b.owner and park_key = any (x_keys) and park_after is null
           and (v_last ? park_key) is not true and not exists (
                select from pgq.parked
                 where ev_owner = b.owner and park_key = p.park_key and park_no < p.park_no);
    end if;
    return v_count;
end $$;
comment on function pgq.event_park is 'Parks failed events, and those that wait behind them.';
