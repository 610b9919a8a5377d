-- Deletes old rows of the position log. The newest row of each subscription stays. Rows of removed
-- subscriptions go too: an unregister_consumer in REPEATABLE READ may not have seen the last ones.
--
-- While a transaction holds xmin back, deleted rows stay and the table grows. When it is a megabyte
-- larger than the positions need, it is compacted instead (see compact_positions), unless an open
-- transaction uses it.
--
-- Rows that another session has locked are left out: unregister_consumer deletes in another order,
-- so a wait could deadlock.
--
-- Returns: 0, done (1 would ask for another call, see maint_operations).
-- Writes: delete pgq.position; as compact_positions.
create or replace function pgq.maint_positions()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set row_security = off as $$
begin
    if pg_relation_size('pgq.position') > (1 << 20) + 200 * (select count(*) from pgq.registration)
            and current_setting('transaction_isolation') = 'read committed'
            and pgq.compact_positions() then
        return 0;
    end if;
    delete from pgq.position
     where ctid = any (array(
            select old.ctid
              from pgq.position old join pgq.current_position newest on newest.sub_id = old.pos_sub
             where old.pos_no < newest.pos_no
               for update of old skip locked));
    delete from pgq.position
     where ctid = any (array(
            select ctid from pgq.position
             where pos_sub not in (select sub_id from pgq.registration)
               for update skip locked));
    return 0;
end $$;
comment on function pgq.maint_positions() is 'Deletes old rows of the position log.';
