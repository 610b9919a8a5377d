-- Hides events from the consumers of a queue, or from one of them, unless they have had them: for
-- cancel_event and skip_event. From consumers that register later, an event that is cancelled for
-- all is hidden too.
--
-- An event's id tells where to look for it. A tick's sequence is read after its snapshot is taken.
-- So an id beyond it belongs to a transaction that the snapshot does not see: the last tick with a
-- smaller sequence is where the search begins, however long the transaction ran. The first tick
-- that is left will do for all others: no consumer gets what that one sees.
--
-- The search takes no lock of a consumer, and may read much. Then the consumers are locked, so what
-- they have is certain until the end of the transaction, and another search reads what came since.
-- A third search, in hide_from_consumer, finds copies that the ticker has moved since. Delayed
-- events come first: one that the ticker moves just now is found by a search of the newest events.
-- Parameters: i_sub: the consumer; null: all.
-- Returns: one row for each event and consumer; for each event, without a name, if there is none.
-- Raises: PQ001; PQ009 a NULL; PQ012 as check_moved; PQ013 not READ COMMITTED; 55P03 as
--   lock_consumers.
-- Writes: advisory lock; as lock_event_tables, lock_consumers, hide_from_consumer;
--   delete pgq.delayed_event; insert pgq.skipped_event.
create or replace function pgq.hide_events(
    i_queue_name text, i_sub int, i_event_ids bigint[], out event_id bigint,
    out consumer_name text, out state text)
returns setof record language plpgsql as $$
declare
    q pgq.queue;
    v_ids bigint[];
    v_delayed bigint[] := '{}';  -- those that were removed
    v_missing bigint[];
    v_start txid_snapshot;
    v_since txid_snapshot;
    v_events pgq.event_template[];
begin
    perform pgq.check_isolation('cancelling events');
    if i_event_ids is null or array_position(i_event_ids, null) is not null then
        raise exception 'Invalid NULL value: an event id' using errcode = 'PQ009',
            hint = 'name the ids that insert_event returned';
    end if;
    perform pgq.lock_event_tables(i_queue_name);
    perform pgq.check_moved(pgq.find_queue(i_queue_name));
    q := pgq.find_queue(i_queue_name);
    v_since := txid_current_snapshot();
    v_ids := array(select distinct id from unnest(i_event_ids) id);
    if i_sub is null then
        with gone as (
            delete from pgq.delayed_event where ev_queue = q.queue_id and ev_id = any (v_ids)
            returning ev_id)
        select coalesce(array_agg(ev_id), '{}') into v_delayed from gone;
        v_ids := array(select unnest(v_ids) except select unnest(v_delayed));
    end if;
    v_events := pgq.find_events_by_id(q.queue_id, v_since, v_ids);
    v_missing := array(
        select unnest(v_ids) except select ev_id from unnest(v_events) where ev_owner is null
        order by 1);
    if v_missing <> '{}' then
        select tick_snapshot into v_start from pgq.tick
         where tick_queue = q.queue_id and tick_id >= q.queue_low_tick
           and tick_event_seq < v_missing[1]
         order by tick_id desc limit 1;
        if not found then
            select tick_snapshot into v_start from pgq.tick
             where tick_queue = q.queue_id and tick_id >= q.queue_low_tick order by tick_id limit 1;
        end if;
        v_events := v_events || pgq.find_events_by_id(q.queue_id, v_start, v_missing);
    end if;
    if v_ids <> '{}' then
        if i_sub is null then
            -- Against register_consumer_at: a consumer that comes now sees what is cancelled.
            perform pg_advisory_xact_lock(pgq.lock_number('skips'), q.queue_id);
        end if;
        perform pgq.lock_consumers(q.queue_id, i_sub);
        v_events := v_events || pgq.find_events_by_id(q.queue_id, v_since, v_ids);
        if i_sub is null then
            insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
            select -q.queue_id, ev_txid, ev_id from unnest(v_events) where ev_owner is null
            on conflict do nothing;
        end if;
    end if;
    return query
    select h.event_id, c.co_name, h.state
      from pgq.registration r
      join pgq.consumer c on c.co_id = r.sub_consumer
     cross join lateral (
            select id, 'cancelled' from unnest(v_delayed) id
            union all
            select * from pgq.hide_from_consumer(
                   r, v_ids, v_events, v_since, i_sub is not null)
             where v_ids <> '{}') h (event_id, state)
     where r.sub_queue = q.queue_id and r.sub_parent is null and (i_sub is null or r.sub_id = i_sub)
     order by h.event_id, c.co_name;
    if not found then
        return query
        select i.id, null::text, case when i.id in (
                select ev_id from unnest(v_events) union all select unnest(v_delayed))
                   then 'cancelled' else 'unknown' end
          from unnest(v_ids || v_delayed) i (id) order by 1;
    end if;
end $$;
