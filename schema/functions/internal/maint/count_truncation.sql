-- Renames pgq.truncation_N, which the caller has locked: see lock_truncation_mark. If a restore has
-- left several, a new table replaces them all. Not an old one: the restored queue_tables may hold
-- its oid, and is_moved would not notice the restore.
-- Writes: alter, drop or create table pgq.truncation_N.
create or replace function pgq.count_truncation()
returns void language plpgsql as $$
declare
    v_marks constant text[] := array(
        select relname from pg_class
         where relnamespace = 'pgq'::regnamespace and relkind = 'r'
           and relname ~ '^truncation_[0-9]+$'
         order by substr(relname, 12)::bigint desc);
    v_new constant text := 'truncation_' || substr(v_marks[1], 12)::bigint + 1;
    v_mark text;
begin
    if cardinality(v_marks) = 1 then
        execute format('alter table pgq.%I rename to %I', v_marks[1], v_new);
        return;
    end if;
    foreach v_mark in array v_marks loop
        execute format('drop table pgq.%I', v_mark);
    end loop;
    execute format('create table pgq.%I ()', v_new);
    execute format('comment on table pgq.%I is %L', v_new,
        'Holds nothing. Its name counts truncations.');
    perform pgq.set_rights('pg_class', to_regclass('pgq.' || v_new), '{public select}');
end $$;
