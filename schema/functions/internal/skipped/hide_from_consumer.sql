-- Hides events from one consumer: see hide_events. Pending events get a row in pgq.skipped_event,
-- unless the consumer reads ranges of ticks, which never change. An event that an open batch still
-- has is delivered, and so is one that is claimed, unless i_claimed; one in flight that nobody has
-- claimed is not. Its copies stay: the consumer has asked for them.
--
-- Copies that wait are removed before the event tables are read again. A row that
-- maint_retry_events is moving meanwhile is waited for, and then found in an event table.
-- Parameters: r: the consumer, locked by the caller. i_events: what
--   find_events_by_id found, before and after the lock. i_since: a snapshot from before that.
-- Returns: the state of each event: cancelled, delivered, by ticks, unknown.
-- Writes: as remove_waiting, take_from_flight; insert pgq.skipped_event.
create or replace function pgq.hide_from_consumer(
    r pgq.registration, i_ids bigint[], i_events pgq.event_template[], i_since txid_snapshot,
    i_claimed boolean, out event_id bigint, out state text)
returns setof record language plpgsql as $$
declare
    w record;
    p pgq.current_position;
    v_found pgq.event_template[];
    v_pending pgq.event_template[];
    v_open bigint[] := '{}';
    v_by_ticks boolean;
    v_taken bigint[] := '{}';  -- out of flight
begin
    if r.sub_mode = 'shared' then
        select taken, held into v_taken, v_open
          from pgq.take_from_flight(r.sub_id, i_ids, i_claimed);
    end if;
    for p in
        select c.* from pgq.current_position c
         where c.sub_id = r.sub_id or c.sub_parent = r.sub_id
    loop
        v_open := v_open || pgq.find_open_ids(p, i_ids, i_events);
    end loop;
    w := pgq.remove_waiting(r.sub_id, i_ids, v_open);
    v_found := i_events || pgq.find_events_by_id(r.sub_queue, i_since, i_ids);
    select * into p from pgq.current_position c where c.sub_id = r.sub_id;
    v_pending := pgq.find_pending_events(p, v_found);
    v_by_ticks := p.pos_pins is not null;
    if not v_by_ticks then
        insert into pgq.skipped_event (skip_sub, skip_txid, skip_id)
        select r.sub_id, ev_txid, ev_id from unnest(v_pending) where ev_id <> all (v_open)
        union
        select r.sub_id, ev_txid, ev_id from unnest(v_found)
         where ev_id = any (v_taken) and coalesce(ev_owner, r.sub_id) = r.sub_id
        on conflict do nothing;
    end if;
    return query
    select i.id, case
            when i.id = any (v_open) then 'delivered'
            when i.id in (select unnest(w.removed)) or i.id = any (v_taken) then 'cancelled'
            when v_by_ticks and i.id in (select ev_id from unnest(v_pending)) then 'by ticks'
            when i.id in (
                select ev_id from unnest(v_found)
                  join pgq.skipped_event
                    on skip_sub = r.sub_id and skip_txid = ev_txid and skip_id = ev_id)
                then 'cancelled'
            when i.id in (select unnest(w.held)) or i.id in (
                select ev_id from unnest(v_found) where coalesce(ev_owner, r.sub_id) = r.sub_id)
                then 'delivered'
            else 'unknown' end
      from unnest(i_ids) i (id);
end $$;
