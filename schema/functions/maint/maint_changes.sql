-- Deletes changes that were begun more than 90 days ago, the oldest first, up to 10,000 a call.
-- Returns: 1 call again at once, 0 done.
-- Writes: delete pgq.change.
create or replace function pgq.maint_changes()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_chunk constant int := 10000;
    v_deleted int;
begin
    delete from pgq.change
     where change_id in (
            select change_id
              from (
                    select change_id, change_time from pgq.change
                     order by change_id limit v_chunk) oldest
             where change_time < now() - interval '90 days');
    get diagnostics v_deleted = row_count;
    return (v_deleted = v_chunk)::int;
end $$;
comment on function pgq.maint_changes is 'Deletes changes after 90 days: 1 call again, 0 done.';
