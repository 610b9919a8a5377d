-- Inserts an event that is due at a time: consumers get it then, if the caller's transaction
-- commits, as if the ticker had inserted it. Until then it waits in pgq.delayed_event. Where the
-- time has passed, it is insert_event.
--
-- The id comes from the queue's sequence. So the sequence is locked until the transaction ends:
-- drop_queue and repair_queue wait for it, and a ticker finds out when it has committed.
-- Returns: the event's id.
-- Raises: as begin_delayed; 42P01 the queue was dropped meanwhile.
-- Writes: insert pgq.delayed_event; nextval of the queue's sequence; or as insert_event.
create or replace function pgq.insert_event_at(
    i_queue_name text, i_deliver_at timestamptz, ev_type text, ev_data text,
    ev_extra1 text default null, ev_extra2 text default null, ev_extra3 text default null,
    ev_extra4 text default null)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    return (select pgq.insert_events_at(i_queue_name, i_deliver_at, array[ev_type], array[ev_data],
        array[ev_extra1], array[ev_extra2], array[ev_extra3], array[ev_extra4]));
end $$;
comment on function pgq.insert_event_at is 'Inserts an event that is due at a time.';
