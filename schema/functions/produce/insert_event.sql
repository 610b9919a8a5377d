-- Function: pgq.insert_event(queue_name text, ev_type text, ev_data text, ev_extra1..4 text)
--
-- Inserts an event in the caller's transaction: consumers get it if that commits.
--
-- build_insert_path generates the function's body, here and whenever a queue is created, dropped or
-- gets more tables.
--
-- Returns: the event's id.
-- Raises: PQ001; PQ006 Insert into queue disallowed; PQ007 per-transaction limit; PQ009 NULL queue.
-- Writes: insert into the queue's current table; nextval of its sequence.
do $rebuild$
begin
    perform pg_advisory_xact_lock(7366513, 2);
    perform pgq.build_insert_path(null);
end
$rebuild$;
comment on function pgq.insert_event(text, text, text, text, text, text, text) is 'Inserts an event in the caller''s transaction.';
comment on function pgq.insert_event(text, text, text) is 'Inserts an event in the caller''s transaction.';
