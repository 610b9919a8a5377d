-- Notes that the rows of a queue are those of this database: see is_moved.
--
-- Both statements write by the same id, that of a subtransaction if the caller is in one. No
-- function tells that id before a row has it.
-- Writes: insert or update pgq.checked.
create or replace function pgq.mark_checked(i_queue_id int)
returns void language plpgsql as $$
begin
    insert into pgq.checked (checked_queue, checked_xmin) values (i_queue_id, 0)
    on conflict (checked_queue) do update set checked_xmin = 0;
    update pgq.checked set checked_xmin = xmin::text::bigint where checked_queue = i_queue_id;
end $$;
