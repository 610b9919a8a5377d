-- Sets the storage of a queue's event tables: full pages, because rows never change, and no
-- autovacuum, because TRUNCATE empties them.
-- Returns: 1 done, 0 no such queue, null for null.
-- Writes: alter table.
create or replace function pgq.tune_storage(i_queue_name text)
returns int language plpgsql strict security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_table name;
begin
    for v_table in
        select relname from pg_inherits join pg_class on oid = inhrelid
          join pgq.queue on inhparent = to_regclass(queue_data_pfx)
         where queue_name = i_queue_name
    loop
        execute format('alter table pgq.%I set (fillfactor = 100, autovacuum_enabled = off, '
            'toast.autovacuum_enabled = off)', v_table);
    end loop;
    return found::int;
end $$;
comment on function pgq.tune_storage is 'Sets the storage of a queue''s event tables.';
