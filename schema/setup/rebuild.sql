-- Generates the insert functions anew, so that queues made by an older version get this one's.
--
-- Writes: create function.
do $rebuild$
begin
    perform pg_advisory_xact_lock(7366513, 2);
    perform pgq.build_queue_insert(queue_id) from pgq.queue order by queue_id;
    perform pgq.build_insert_path();
end
$rebuild$;
