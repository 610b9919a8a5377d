-- Function: pgq.drop_stage(i_queue_name text, i_writer text)
--
-- Drops what a writer staged and will not commit. If a task is still filling it, maint_stages drops it later.
--
-- Returns: 1; 0 there was none.
-- Writes: as clear_stage; delete pgq.stage.
create or replace function pgq.drop_stage(i_queue_name text, i_writer text)
returns int language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
    s pgq.stage;
begin
    delete from pgq.stage using pgq.queue
     where queue_name = i_queue_name and stage_queue = queue_id and stage_writer = i_writer returning stage.* into s;
    if not found then
        return 0;
    end if;
    perform pgq.clear_stage(s.stage_id, true);
    return 1;
end
$$;
comment on function pgq.drop_stage(text, text) is 'Drops what a writer staged and will not commit.';
