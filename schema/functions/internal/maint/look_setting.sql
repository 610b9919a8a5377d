-- The session's setting with its last look for due rows of pgq.retry_queue or pgq.delayed_event.
-- note_look writes it, parse_look reads it.
--
-- Deleted rows stay at the low end of an index by time, as dead rows, while a transaction holds
-- xmin back (G6). So the session remembers its last look: its time, and which transactions it did
-- not see. The next look reads what became due since, and what those transactions inserted: they
-- may have begun before the look, with a time that has passed. A row with this state would leave
-- dead rows itself. The setting's name holds the table's file number, so that a new table (a
-- restored dump) is read from its beginning.
--
-- Writes: nothing.
create or replace function pgq.look_setting(i_table text) returns text language sql stable as $$
    select 'pgq.due_seen_' || pg_relation_filenode(format('pgq.%I', i_table)::regclass)
$$;
