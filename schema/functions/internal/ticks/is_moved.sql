-- Whether a queue was moved to this cluster or restored, and no tick has compared its transaction
-- ids with this cluster since. A move changes the system identifier. A restore writes the two rows
-- of pgq.checked by one transaction id, while they hold two. The identifier alone is not enough: a
-- physical copy has the same one, and a server may hide it.
--
-- Nor are the oids of tables, which a restore makes anew: they are the same wherever the same dump
-- is restored into copies of one cluster. pg_upgrade, freezing and VACUUM FULL keep the xmin of a
-- row.
create or replace function pgq.is_moved(q pgq.queue)
returns boolean language plpgsql stable as $$
begin
    return q.queue_system_id is distinct from pgq.system_identifier()
        or (select bool_and(xmin::text::bigint = checked_xmin) from pgq.checked
             where checked_queue = q.queue_id) is not true;
end $$;
