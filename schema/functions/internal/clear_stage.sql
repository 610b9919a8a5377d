-- Function: pgq.clear_stage(i_stage int, i_drop boolean)
--
-- Empties a stage, or drops it. TRUNCATE is the usual way: dropping and making a table for each epoch would leave ten
-- times as many dead rows in PostgreSQL's catalogue, and a pg_dump fails when a table goes that it has just listed.
--
-- Nobody waits here: a task that is not needed any more may still be filling the table, or pg_dump reading it.
--
-- Returns: whether it was done.
-- Writes: ACCESS EXCLUSIVE lock, truncate or drop of the stage's table; delete pgq.stage.
create or replace function pgq.clear_stage(i_stage int, i_drop boolean)
returns boolean language plpgsql as $$
begin
    execute format('lock table pgq.stage_%s in access exclusive mode nowait', i_stage);
    execute format(case when i_drop then 'drop table pgq.stage_%s' else 'truncate pgq.stage_%s' end, i_stage);
    if i_drop then
        delete from pgq.stage where stage_id = i_stage;
    end if;
    return true;
exception
    when lock_not_available then
        return false;
    when undefined_table then  -- somebody else was faster
        delete from pgq.stage where stage_id = i_stage;
        return true;
end
$$;
comment on function pgq.clear_stage(int, boolean) is 'Empties a stage, or drops it, unless somebody uses it.';
