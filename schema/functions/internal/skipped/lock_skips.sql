-- Lets one transaction at a time cancel events of a queue for all consumers, or register a new
-- consumer: the second one sees what the first one did. So an event that is cancelled is hidden
-- from each consumer that is there, and from each that comes later.
-- Writes: advisory lock.
create or replace function pgq.lock_skips(i_queue_id int)
returns void language sql as $$
    select pg_advisory_xact_lock(pgq.lock_number('skips'), i_queue_id)
$$;
