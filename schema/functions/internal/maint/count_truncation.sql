-- Renames pgq.truncation_N: see lock_truncation_mark.
-- Parameters: i_mark: what lock_truncation_mark returned.
-- Writes: alter table pgq.truncation_N.
create or replace function pgq.count_truncation(i_mark text)
returns void language plpgsql as $$
begin
    execute format('alter table pgq.%I rename to %I',
        i_mark, 'truncation_' || substr(i_mark, 12)::bigint + 1);
end $$;
