-- Drops the stages that a writer opened and did not release: their events are never delivered, and
-- rotation does not wait for them. A task that commits later leaves a stage that waits for a day:
-- see maint_stages.
-- Returns: the number of stages dropped.
-- Raises: 42P01 the queue was dropped meanwhile.
-- Writes: ROW EXCLUSIVE lock on an event table; update pgq.stage.
create or replace function pgq.drop_stage(i_queue_name text, i_writer text)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    q pgq.queue;
    v_count int;
begin
    select * into q from pgq.queue where queue_name = i_queue_name;
    if not found then
        return 0;
    end if;
    perform pgq.lock_current_table(q);
    update pgq.stage set stage_released_by = 0
     where stage_queue = q.queue_id and stage_writer = i_writer and stage_released_by is null;
    get diagnostics v_count = row_count;
    return v_count;
end $$;
comment on function pgq.drop_stage is 'Drops the stages that a writer did not release.';
