-- Whether a queue was moved to this cluster or restored, and no tick has compared its transaction
-- ids with this cluster since. A move changes the system identifier, and a restore makes tables
-- anew. The identifier alone is not enough: a physical copy has the same one, and a server may hide
-- it.
-- Writes: nothing.
create or replace function pgq.is_moved(q pgq.queue)
returns boolean language plpgsql stable as $$
begin
    return q.queue_system_id is distinct from pgq.system_identifier()
        or q.queue_tables is distinct from pgq.own_tables(q.queue_id);
end $$;
