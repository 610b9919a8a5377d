-- Function: pgq.maint_rotate_tables_step2()
--
-- Closes the rotations of step1, in a later transaction. Nothing depends on it here but the next step1, as in PGQ.
--
-- Returns: 0.
-- Writes: update pgq.queue.
create or replace function pgq.maint_rotate_tables_step2()
returns int language sql
security definer set search_path = pg_catalog, pg_temp as $$
    update pgq.queue set queue_switch_step2 = txid_current() where queue_switch_step2 is null;
    select 0
$$;
comment on function pgq.maint_rotate_tables_step2() is 'Closes the rotations of step1.';
