-- Leases events of a shared consumer to a receiver: at most i_limit of one range, first of ranges
-- whose lease has ended, or whose worker died, or that are left over; else of the range after the
-- consumer's position. The lease ends after i_lease, unless touch_batch extends it; finish_events
-- finishes events of it in any order.
--
-- A lease is a batch of a subconsumer named consumer.receive-N, see lease_slot. Its pos_ids are the
-- ids of what is leased and not finished. What a range has beyond i_limit stays in a subconsumer of
-- its own, with a lease that has ended, so that any call of receive or take_part goes on with it.
-- A lease that is taken over gets a new batch id (G5).
--
-- A poll of an idle queue takes no lock. A claim locks the consumer, so the calls are served one
-- after the other: commit at once. A range that another session locks, to finish events of it, is
-- skipped: it may be a stopped process.
--
-- Each call reads the events of the range's ticks that are open. So it costs in proportion to the
-- ticks, not to i_limit: little, unless one transaction inserted very many events.
-- Parameters: i_limit: 1 to 1,000. i_lease: a second to a day.
-- Returns: the batch id of the lease with each event; attempt: 1, and one for each retry of the
--   event, for each lease that had it and ended, and for each worker that died while it handled
--   only this event. No rows: nothing to lease, or a hundred ranges without events came; then the
--   position moved on.
-- Raises: PQ002 not a subscriber; PQ009 a bad limit or lease, or as lease_end, lease_slot; PQ012,
--   42501 as batch_event_sql; PQ013 not READ COMMITTED; PQ015 as find_next_tick; PQ020 the consumer
--   is plain, or a subconsumer; PQ021 the consumer has a batch open; PQ022 as lease_slot.
-- Writes: row lock pgq.registration; update pgq.registration at the first call; insert
--   pgq.position; as lease_slot, batch_event_sql.
create or replace function pgq.lease_batch(
    i_queue_name text, i_consumer_name text, i_limit int, i_lease interval, out batch_id bigint,
    out attempt int, out ev_id bigint, out ev_time timestamptz, out ev_txid bigint,
    out ev_retry int, out ev_type text, out ev_data text, out ev_extra1 text, out ev_extra2 text,
    out ev_extra3 text, out ev_extra4 text)
returns setof record language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.current_position;  -- the consumer's
    d pgq.current_position;  -- a range that nobody holds
    v_events pgq.event_template[];
begin
    perform pgq.check_isolation('receive');
    if i_limit between 1 and 1000 is not true then
        raise exception 'a limit of % events', i_limit using errcode = 'PQ009',
            hint = 'receive takes from 1 to 1000 events';
    elsif (i_lease >= '1 second') is not true then
        raise exception 'a lease of %', coalesce(i_lease::text, 'null') using errcode = 'PQ009',
            hint = 'a lease takes a second or more: the events are handled in it';
    end if;
    perform pgq.lease_end(i_lease);
    p := pgq.find_shared(i_queue_name, i_consumer_name);
    if (pgq.find_free_range(p.sub_id, null, false)).sub_id is null
            and p.pos_cuts is null and pgq.find_next_tick(p, null, null, null) is null then
        return;
    end if;
    perform from pgq.registration where sub_id = p.sub_id for no key update;
    p := pgq.find_shared(i_queue_name, i_consumer_name);
    update pgq.registration set sub_mode = 'shared' where sub_id = p.sub_id and sub_mode is null;
    for i in 1..100 loop
        d := pgq.find_free_range(p.sub_id, null, true);
        if d.sub_id is null then
            d := pgq.open_next_range(p.sub_id);
            exit when d.sub_id is null;
        end if;
        v_events := pgq.read_open_events(d.pos_batch, i_limit + 1);
        if v_events is not null then
            d := pgq.count_end(d);
            batch_id := pgq.lease_events(d,
                array(select e.ev_id from unnest(v_events[1:i_limit]) e),
                cardinality(v_events) > i_limit, pgq.lease_end(i_lease));
            attempt := pgq.add_tries(d.pos_leases, 1);
            return query
            select batch_id, pgq.add_tries(pgq.add_tries(attempt, e.ev_retry),
                       case when e.ev_id = (v_events[1]).ev_id then d.pos_tries end),
                   e.ev_id, e.ev_time, e.ev_txid, e.ev_retry, e.ev_type, e.ev_data, e.ev_extra1,
                   e.ev_extra2, e.ev_extra3, e.ev_extra4
              from unnest(v_events[1:i_limit]) e;
            return;
        end if;
        perform pgq.move_position(d.sub_id, d.pos_no, null, null, null);
    end loop;
end $$;
comment on function pgq.lease_batch is 'Leases events of a shared consumer to a receiver.';
