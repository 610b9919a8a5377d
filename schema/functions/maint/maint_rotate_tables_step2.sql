-- Ends the rotations of step1, in a later transaction, as in PGQ. Kept for PGQ's programs: nothing
-- here reads the xid; while it is null, step1 does nothing. And it drops copies that nobody needs
-- any more: see copy_inflight.
-- Returns: 0.
-- Writes: update pgq.queue; as drop_copies.
create or replace function pgq.maint_rotate_tables_step2()
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
    select pgq.drop_copies(queue_id) from pgq.queue where queue_switch_step2 is null;
    update pgq.queue set queue_switch_step2 = txid_current() where queue_switch_step2 is null;
    select 0
$$;
comment on function pgq.maint_rotate_tables_step2 is 'Ends the rotations of step1.';
