-- Puts an event with all its fields given into the retry queue: a delayed event for one consumer.
-- The registration is locked: else an unregister_consumer that misses the event would leave it.
-- Parameters: x_ev_id: null: a new id. x_ev_time: null: now().
-- Returns: the event's id.
-- Raises: PQ002 consumer not registered; PQ026; PQ009 a NULL time; as cover_id.
-- Writes: key share lock pgq.registration; insert pgq.retry_queue; nextval of the queue's event
--   sequence; as cover_id.
create or replace function pgq.event_retry_raw(
    x_queue text, x_consumer text, x_retry_after timestamptz, x_ev_id bigint, x_ev_time timestamptz,
    x_ev_retry int, x_ev_type text, x_ev_data text, x_ev_extra1 text, x_ev_extra2 text,
    x_ev_extra3 text, x_ev_extra4 text)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    r record;
    v_id bigint := x_ev_id;
begin
    if x_retry_after is null then
        raise exception 'Invalid NULL value: x_retry_after' using errcode = 'PQ009';
    end if;
    select q, coalesce(s.sub_parent, s.sub_id) as owner into r
      from pgq.registration s
      join pgq.queue q on q.queue_id = s.sub_queue
      join pgq.consumer c on c.co_id = s.sub_consumer
     where q.queue_name = x_queue and c.co_name = x_consumer
       for key share of s;
    if not found then
        perform pgq.raise_if_renamed(x_queue);
        raise exception 'consumer not registered' using errcode = 'PQ002',
            detail = format('queue %s, consumer %s', x_queue, x_consumer);
    end if;
    if v_id is null then
        v_id := nextval((r.q).queue_event_seq::regclass);
    else
        perform pgq.cover_id(r.q, v_id);
    end if;
    insert into pgq.retry_queue
    values (pgq.retry_time(r.owner, x_retry_after), (r.q).queue_id, v_id,
        coalesce(x_ev_time, now()), txid_current(), r.owner, x_ev_retry, x_ev_type, x_ev_data,
        x_ev_extra1, x_ev_extra2, x_ev_extra3, x_ev_extra4);
    return v_id;
end $$;
comment on function pgq.event_retry_raw is 'Puts a whole event into a consumer''s retry queue.';
