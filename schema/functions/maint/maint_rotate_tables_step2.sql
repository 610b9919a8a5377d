-- Ends the rotations of step1, in a later transaction, as in PGQ. Kept for PGQ's programs: nothing
-- here reads the xid; while it is null, step1 does nothing.
-- Returns: 0.
-- Writes: update pgq.queue.
create or replace function pgq.maint_rotate_tables_step2()
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    update pgq.queue set queue_switch_step2 = txid_current() where queue_switch_step2 is null;
    select 0
$$;
comment on function pgq.maint_rotate_tables_step2 is 'Ends the rotations of step1.';
