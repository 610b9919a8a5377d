-- Inserts archived events again for one consumer: into its retry queue, due now, with their ids and
-- times, retries counted anew. The ticker puts them after everything that is in the queue.
--
-- The replay's position in the archive moves in the same transaction. So after a crash the caller
-- continues after the last events that were inserted. Of two callers with one replay, the second
-- inserts nothing.
--
-- These are left out: events that the consumer has yet to get, that wait in its retry queue,
-- that its filter does not take, or that were cancelled, as far as pgq.skipped_event still
-- has them. (By ids, because a repair changes ev_txid.) It has yet to get what its last tick does
-- not see; of subconsumers the slowest one counts. tick_ids has the first tick that saw each
-- event, and a position is such a tick, so comparing numbers is exact. While the registration is
-- locked, the position can only advance: see add_registration.
--
-- Not left out are events whose retried copy the ticker has put into the queue, and which the
-- consumer has yet to get: no index of the event tables has owners or ids.
-- Parameters: i_tick, i_group: the replay's position. i_next_tick, i_next_group: its position after
--   these events. i_done: they are the last ones. The elements of the arrays with the same index
--   belong to one event.
-- Returns: how many events were inserted; null, and nothing was done, if the replay is at another
--   position, or there is none.
-- Raises: PQ002 not a subscriber; PQ009 arrays of different lengths; PQ013, PQ024 as
--   begin_replay.
-- Writes: key share lock pgq.registration; update pgq.replay; insert pgq.retry_queue.
create or replace function pgq.replay_events(
    i_queue_name text, i_consumer_name text, i_tick bigint, i_group bigint, i_next_tick bigint,
    i_next_group bigint, i_done boolean, ev_ids bigint[], ev_times timestamptz[], tick_ids bigint[],
    ev_types text[], ev_datas text[], ev_extra1s text[], ev_extra2s text[], ev_extra3s text[],
    ev_extra4s text[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_events constant int := cardinality(ev_ids);
    v_sub constant int := pgq.find_subscription(i_queue_name, i_consumer_name);
    r pgq.registration;
    v_inserted int := 0;
begin
    perform pgq.check_isolation('a replay');
    if array[cardinality(ev_times), cardinality(tick_ids), cardinality(ev_types),
             cardinality(ev_datas), cardinality(ev_extra1s), cardinality(ev_extra2s),
             cardinality(ev_extra3s), cardinality(ev_extra4s)]
            is distinct from array_fill(v_events, array[8]) then
        raise exception 'the arrays differ in length' using errcode = 'PQ009',
            hint = 'give one element for each event in each array';
    end if;
    select * into r from pgq.registration where sub_id = v_sub for key share;
    if r.sub_detached is not null then
        perform pgq.raise_detached(i_queue_name, i_consumer_name, r.sub_detached);
    end if;
    update pgq.replay
       set replay_tick = i_next_tick, replay_group = i_next_group,
           replay_done = case when i_done then now() end
     where replay_sub = r.sub_id and replay_tick = i_tick and replay_group = i_group
       and replay_done is null;
    if not found then
        return null;
    end if;
    if v_events > 0 then
        execute format($sql$
            with given as materialized (
                select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) with ordinality
                     e (ev_id, ev_time, tick_id, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3,
                        ev_extra4, number)
                 order by number)
            insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_id, ev_time, ev_owner,
                   ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4)
            select clock_timestamp(), $10, ev_id, ev_time, $11,
                   ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
              from given
             where %s and tick_id <= (
                    select min(pos_last_tick) from pgq.current_position
                     where $11 in (sub_id, sub_parent))
               and ev_id not in (
                    select skip_id from pgq.skipped_event where skip_sub in ($11, -$10))
            on conflict (ev_owner, ev_id) do nothing$sql$,
            coalesce(pgq.filter_sql(r.sub_filter), 'true'))
            using ev_ids, ev_times, tick_ids, ev_types, ev_datas, ev_extra1s, ev_extra2s,
                ev_extra3s, ev_extra4s, r.sub_queue, r.sub_id;
        get diagnostics v_inserted = row_count;
        update pgq.replay set replay_events = replay_events + v_inserted
         where replay_sub = r.sub_id;
    end if;
    return v_inserted;
end $$;
comment on function pgq.replay_events is 'Inserts archived events again for one consumer.';
