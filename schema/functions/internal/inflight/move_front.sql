-- Appends the next row of a shared consumer's front, and deletes an old one: by its number, as a
-- range would walk over those that are dead.
-- Writes: insert, delete pgq.front.
create or replace function pgq.move_front(f pgq.front) returns void language plpgsql as $$
begin
    insert into pgq.front select f.*;
    delete from pgq.front where front_sub = f.front_sub and front_no = f.front_no - 50;
end $$;
