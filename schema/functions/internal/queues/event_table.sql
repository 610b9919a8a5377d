-- The name of one of a queue's event tables, without schema and quotes.
-- Parameters: i_number: the number of a rotating table; null: their parent.
-- It is inlined into the expression that calls it.
create or replace function pgq.event_table(i_queue_id int, i_number int default null)
returns text language sql immutable
return 'event_' || i_queue_id::text || coalesce('_' || i_number::text, '');
