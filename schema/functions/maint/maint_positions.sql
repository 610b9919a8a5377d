-- Function: pgq.maint_positions()
--
-- Deletes old rows of the position log. The newest row of a subscription stays: it is its position.
--
-- Returns: 0.
-- Writes: delete pgq.position.
create or replace function pgq.maint_positions()
returns int language sql
security definer set search_path = pg_catalog, pg_temp as $$
    delete from pgq.position old
     using (select r.sub_id, (select max(pos_no) from pgq.position where pos_sub = r.sub_id) as current
              from pgq.registration r) newest
     where old.pos_sub = newest.sub_id and old.pos_no < newest.current;
    select 0
$$;
comment on function pgq.maint_positions() is 'Deletes old rows of the position log.';
