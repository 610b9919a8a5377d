-- Inserts an event in the caller's transaction: consumers get it if that commits.
--
-- build_insert_path generates the functions, here and whenever a queue is created, dropped or gets
-- more tables: one with the parameters ev_extra1..4, one without. With one queue of three tables
-- (read next: build_insert_path, build_insert_event, build_insert_leaf):
--
--   function pgq.insert_event(queue_name text, ev_type text, ev_data text) returns bigint
--       read the queue's id, current table and settings; count_insert if one of them is unusual
--       if v_queue = 1 then
--           if v_table = 0 then insert into pgq.event_1_0 ...; return the sequence's value
--           the same for v_table = 1 and v_table = 2
--       no branch fits: insert_row
-- Returns: the event's id.
-- Raises: PQ001; PQ006 Insert into queue disallowed; PQ007 per-transaction limit; PQ009 NULL queue.
-- Writes: insert into the queue's current table; nextval of its sequence.
do $rebuild$
begin
    perform pg_advisory_xact_lock(pgq.lock_number('engine'), pgq.lock_number('changing'));
    perform pgq.build_insert_path(null);
end $rebuild$;
comment on function pgq.insert_event(text, text, text, text, text, text, text)
    is 'Inserts an event.';
comment on function pgq.insert_event(text, text, text) is 'Inserts an event.';
