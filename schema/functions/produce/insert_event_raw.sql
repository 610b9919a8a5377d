-- Inserts an event with all its fields given: for administrators, and for programs that move events
-- between queues.
-- Parameters: ev_id null: from the sequence (nextval is used up in any case); else unique in the
--   queue: of two events with one id in a batch, event_retry and event_dead keep only one. ev_time
--   null: now(). ev_owner null: for every consumer, else for the subscription with that sub_id.
-- Returns: as insert_event.
-- Raises: as insert_event, cover_id; PQ012 an id is given: as check_moved.
-- Writes: as insert_event, cover_id.
create or replace function pgq.insert_event_raw(
    queue_name text, ev_id bigint, ev_time timestamptz, ev_owner int, ev_retry int, ev_type text,
    ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    q pgq.queue;
    v_id bigint;
begin
    select * into q from pgq.queue where queue.queue_name = insert_event_raw.queue_name;
    if q.queue_id is null or q.queue_disable_insert or q.queue_per_tx_limit is not null then
        perform pgq.count_insert(
            queue_name, q.queue_id, q.queue_disable_insert, q.queue_per_tx_limit, 1);
    end if;
    v_id := pgq.insert_row(q.queue_id, ev_id, coalesce(ev_time, now()), ev_owner, ev_retry,
        ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
    if ev_id is not null then
        perform nextval(q.queue_event_seq::regclass);  -- shows a ticker that there is a new event
        -- First: an event beyond the sequence looks to check_moved like one of a damaged copy.
        perform pgq.cover_id(q, ev_id);
        -- else repair_queue takes it, by its older id, for an event that came with the copy
        perform pgq.check_moved(q);
    end if;
    return v_id;
end $$;
comment on function pgq.insert_event_raw is 'Inserts an event with all its fields given.';
