-- Deletes keys of insert_event_once whose time is over, up to 2,000 a call. A row that a session
-- has locked is left: it takes the key anew.
--
-- Rows just deleted stay at the low end of the index by time while a transaction holds xmin back.
-- So as long as there is more to delete, the session remembers how far it came. The next round
-- begins at the start again: a row may have been committed late, or left because it was locked.
-- Returns: 1 call again at once, 0 done.
-- Writes: delete pgq.dedup_key; the session's setting pgq.dedup_gone_<file>.
create or replace function pgq.maint_dedup_keys()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp
set datestyle = 'ISO' as $$
declare
    c_limit constant int := 2000;
    v_setting constant text := 'pgq.dedup_gone_' || pg_relation_filenode('pgq.dedup_key');
    v_from constant timestamptz :=
        coalesce(nullif(current_setting(v_setting, true), '')::timestamptz, '-infinity');
    v_now constant timestamptz := clock_timestamp();
    v_deleted int;
    v_last timestamptz;
begin
    with deleted as (
        delete from pgq.dedup_key
         where ctid = any (array(
                select ctid from pgq.dedup_key
                 where dedup_until >= v_from and dedup_until < v_now
                 order by dedup_until limit c_limit for update skip locked))
        returning dedup_until)
    select count(*), max(dedup_until) into v_deleted, v_last from deleted;
    perform set_config(
        v_setting, case when v_deleted = c_limit then v_last::text else '' end, false);
    return (v_deleted = c_limit)::int;
end $$;
comment on function pgq.maint_dedup_keys is 'Deletes expired keys: 1 call again, 0 done.';
