-- Renames pgq.truncation_N: see lock_truncation_mark. The caller has locked it.
-- Writes: alter table pgq.truncation_N.
create or replace function pgq.count_truncation()
returns void language plpgsql as $$
declare
    v_mark constant text := (
        select relname from pg_class
         where relnamespace = 'pgq'::regnamespace and relkind = 'r'
           and relname ~ '^truncation_[0-9]+$');
begin
    execute format('alter table pgq.%I rename to %I',
        v_mark, 'truncation_' || substr(v_mark, 12)::bigint + 1);
end $$;
