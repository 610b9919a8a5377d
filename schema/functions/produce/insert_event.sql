-- Function: pgq.insert_event(queue_name text, ev_type text, ev_data text, ev_extra1..4 text)
--
-- Inserts an event in the caller's transaction: it reaches consumers if and when that commits.
--
-- Returns: the event's id.
-- Raises: PQ001 No such queue; PQ006 Insert into queue disallowed; PQ007 per-transaction limit; PQ009 NULL queue.
-- Writes: insert into the queue's current table; nextval of its sequence.
create or replace function pgq.insert_event(
    queue_name text, ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text)
returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pgq.insert_row(queue_name, null, now(), null, null, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4);
end
$$;
comment on function pgq.insert_event(text, text, text, text, text, text, text) is 'Inserts an event in the caller''s transaction.';

create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text)
returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
begin
    return pgq.insert_row(queue_name, null, now(), null, null, ev_type, ev_data, null, null, null, null);
end
$$;
comment on function pgq.insert_event(text, text, text) is 'Inserts an event in the caller''s transaction.';
