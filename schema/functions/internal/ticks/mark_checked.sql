-- Notes that the rows of a queue are those of this database: see is_moved.
--
-- Two statements write a row by the same id, that of a subtransaction if the caller is in one. No
-- function tells that id before a row has it.
-- Parameters: i_number: 1: begin anew; 2: the second row, which stays only if another transaction
--   than that of the first one writes it.
-- Writes: insert, update or delete pgq.checked.
create or replace function pgq.mark_checked(i_queue_id int, i_number int)
returns void language plpgsql as $$
begin
    delete from pgq.checked where checked_queue = i_queue_id and checked_number >= i_number;
    insert into pgq.checked (checked_queue, checked_number, checked_xmin)
    values (i_queue_id, i_number, 0);
    update pgq.checked set checked_xmin = xmin::text::bigint
     where checked_queue = i_queue_id and checked_number = i_number;
    delete from pgq.checked second using pgq.checked first
     where second.checked_queue = i_queue_id and second.checked_number = 2
       and first.checked_queue = i_queue_id and first.checked_number = 1
       and second.checked_xmin = first.checked_xmin;
end $$;
