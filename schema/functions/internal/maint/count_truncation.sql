-- Renames pgq.truncation_N, and drops others that a restore has left: see lock_truncation_mark. The
-- caller has locked all of them.
-- Writes: alter, drop or create table pgq.truncation_N.
create or replace function pgq.count_truncation()
returns void language plpgsql as $$
declare
    v_marks constant text[] := array(
        select relname from pg_class
         where relnamespace = 'pgq'::regnamespace and relkind = 'r'
           and relname ~ '^truncation_[0-9]+$'
         order by substr(relname, 12)::bigint desc);
    v_mark text;
begin
    if v_marks = '{}' then  -- a restore may have left it out
        create unlogged table pgq.truncation_0 ();
        return;
    end if;
    execute format('alter table pgq.%I rename to %I',
        v_marks[1], 'truncation_' || substr(v_marks[1], 12)::bigint + 1);
    foreach v_mark in array v_marks[2:] loop
        execute format('drop table pgq.%I', v_mark);
    end loop;
end $$;
