-- Renames pgq.truncation_N, and drops others that a restore has left. If a restore has left it out,
-- makes it. See lock_truncation_mark. The caller has locked all that are there.
-- Writes: alter and drop, or create table pgq.truncation_N; as set_rights.
create or replace function pgq.count_truncation()
returns void language plpgsql as $$
declare
    v_marks constant text[] := array(
        select relname from pg_class
         where relnamespace = 'pgq'::regnamespace and relname ~ '^truncation_[0-9]+$'
         order by substr(relname, 12)::bigint desc);
    v_mark text;
begin
    if v_marks = '{}' then
        create unlogged table pgq.truncation_0 ();
        comment on table pgq.truncation_0 is 'Holds nothing. Its name counts truncations.';
        perform pgq.set_rights('pg_class', 'pgq.truncation_0'::regclass, '{public select}');
        return;
    end if;
    execute format('alter table pgq.%I rename to %I',
        v_marks[1], 'truncation_' || substr(v_marks[1], 12)::bigint + 1);
    foreach v_mark in array v_marks[2:] loop
        execute format('drop table pgq.%I', v_mark);
    end loop;
end $$;
