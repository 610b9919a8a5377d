-- The oids of two tables that a restore makes anew: the parent of a queue's event tables, and
-- pgq.truncation_N, on which nothing depends. With others that restores have left, in the order of
-- their names.
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
