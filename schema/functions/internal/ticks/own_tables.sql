-- The oids by which is_moved notices a restore: of the parent of a queue's event tables, and of
-- pgq.truncation_N. pg_restore --clean keeps a table that something depends on, such as a view on
-- the parent. Nothing depends on pgq.truncation_N, so each restore makes one. If restores have left
-- several, all of them, in the order of their names.
-- Writes: nothing.
create or replace function pgq.own_tables(i_queue_id int)
returns oid[] language plpgsql stable as $$
begin
    return to_regclass('pgq.' || pgq.event_table(i_queue_id))::oid || array(
        select oid from pg_class
         where relnamespace = 'pgq'::regnamespace and relkind = 'r'
           and relname ~ '^truncation_[0-9]+$'
         order by relname);
end $$;
