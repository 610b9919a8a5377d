-- Finishes events that receive leased, in any order. With the last one the lease is over. In the
-- transaction that processes the events, or puts them into the retry queue or the dead events, it
-- makes each event's effect happen once (G9).
--
-- It waits for another session that finishes events of the same lease. A lease that has ended, and
-- that nobody has taken over, still is the receiver's.
-- Parameters: x_event_ids: ids of the lease.
-- Returns: 1; or 0 with a WARNING when the lease is not open: finished, or taken over.
-- Raises: PQ004 not an event of the lease, or finished before; PQ009 an id is NULL, or receive did
--   not open the batch; 40001 in REPEATABLE READ, another session moved the position or extended
--   the lease, or as check_snapshot.
-- Writes: row lock pgq.registration; insert pgq.position; as check_snapshot.
create or replace function pgq.finish_events(x_batch_id bigint, x_event_ids bigint[])
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p pgq.position := pgq.lock_batch(x_batch_id, true);
    v_open bigint[];
begin
    if p.pos_sub is null then
        raise warning 'finish_events: batch % not found', x_batch_id;
        return 0;
    elsif x_event_ids is null or array_position(x_event_ids, null) is not null then
        raise exception 'Invalid NULL value' using errcode = 'PQ009',
            hint = 'name the ids of the events that are finished';
    elsif p.pos_ids is null or p.pos_last_tick = p.pos_next_tick then  -- as take_parked opens it
        raise exception 'batch % is no lease', x_batch_id using errcode = 'PQ009',
            hint = 'receive did not open it: call finish_part or finish_batch';
    elsif not x_event_ids <@ p.pos_ids then
        raise exception 'event not found' using errcode = 'PQ004',
            detail = format('events %s, batch %s', x_event_ids, x_batch_id),
            hint = 'they were done, retried or dead before, or are not of this batch';
    end if;
    v_open := array(select id from unnest(p.pos_ids) id where id <> all (x_event_ids));
    if v_open = '{}' then
        return pgq.finish_batch(x_batch_id);
    end if;
    perform pgq.move_position(p.pos_sub, p.pos_no, p.pos_last_tick, p.pos_next_tick, p.pos_batch,
        x_from => p.pos_from, x_done => p.pos_done, x_holder => p.pos_holder,
        x_part => p.pos_part, x_until => p.pos_until, x_to => p.pos_to,
        x_tries => case when v_open[1] = p.pos_ids[1] then p.pos_tries end,
        x_died => case when v_open[1] = p.pos_ids[1] then p.pos_died end,
        x_ids => v_open, x_leases => p.pos_leases);
    return 1;
end $$;
comment on function pgq.finish_events(bigint, bigint[]) is 'Finishes events that receive leased.';

-- Finishes events of several leases, which one receiver has. The subconsumers are locked in the
-- order in which unregister_consumer and others lock all of them: else both would wait for ever.
-- Parameters: batch ids and event ids. The elements with the same index belong to one event.
-- Returns: the ids of the batches that are not open, with a WARNING each; the others are finished.
-- Raises: PQ009 arrays of different lengths; as the other form.
-- Writes: as the other form.
create or replace function pgq.finish_events(x_batch_ids bigint[], x_event_ids bigint[])
returns setof bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    l record;
begin
    if (cardinality(x_batch_ids) = cardinality(x_event_ids)) is not true then
        raise exception 'batch ids and event ids differ in number' using errcode = 'PQ009';
    end if;
    for l in
        select e.batch, array_agg(e.id) as ids
          from unnest(x_batch_ids, x_event_ids) e (batch, id)
         group by e.batch
         order by (select pos_sub from pgq.position where pos_batch = e.batch limit 1)
    loop
        if pgq.finish_events(l.batch, l.ids) = 0 then
            return next l.batch;
        end if;
    end loop;
end $$;
comment on function pgq.finish_events(bigint[], bigint[]) is 'Finishes events of several leases.';
