-- Deletes old rows of the position log. The newest row of each subscription stays. While a
-- transaction holds xmin back, deleted rows stay and the table grows. When it is a megabyte larger
-- than the positions need, it is compacted instead, unless an open transaction uses it.
--
-- Rows that another session has locked are left out: unregister_consumer deletes in another order,
-- so a wait could deadlock. The later rows of the same subscription then stay too: a gap would open
-- a batch that was taken away, because find_batch and move_position look for the next pos_no.
-- Returns: 0, done (1 would ask for another call, see maint_operations).
-- Writes: delete pgq.position; as compact_positions.
create or replace function pgq.maint_positions()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off set jit = off
set max_parallel_workers_per_gather = 0 as $$
begin
    if pg_relation_size('pgq.position') > (1 << 20) + 200 * (select count(*) from pgq.registration)
            and current_setting('transaction_isolation') = 'read committed'
            and pgq.compact_positions() then
        return 0;
    end if;
    with free as materialized (
        select old.pos_sub, old.pos_no
          from pgq.position old join pgq.current_position newest on newest.sub_id = old.pos_sub
         where old.pos_no < newest.pos_no
           for update of old skip locked
    ), kept as (
        select pos_sub, min(pos_no) as pos_no
          from pgq.position left join free using (pos_sub, pos_no)
         where free.pos_sub is null
         group by pos_sub
    )
    delete from pgq.position p
     using free join kept using (pos_sub)
     where p.pos_sub = free.pos_sub and p.pos_no = free.pos_no and free.pos_no < kept.pos_no;
    return 0;
end $$;
comment on function pgq.maint_positions is 'Deletes old rows of the position log.';
