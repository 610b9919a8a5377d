-- The session's setting with its last poll for due rows of pgq.retry_queue or pgq.delayed_event.
-- note_poll writes it, parse_poll reads it.
--
-- Deleted rows stay at the low end of an index by time, as dead rows, while a transaction holds
-- xmin back (G6). So the session remembers its last poll: its time, and which transactions it did
-- not see, which may have begun before with a time that has passed. A row with this state would
-- leave dead rows itself. The setting's name holds the table's file number, so that a new table (a
-- restored dump) is read from its beginning.
create or replace function pgq.poll_setting(i_table text) returns text language sql stable as $$
    select 'pgq.due_seen_' || pg_relation_filenode(format('pgq.%I', i_table)::regclass)
$$;
