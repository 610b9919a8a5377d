-- Ends the capture of a table, with its caller's rights, who owns the table. Events that are in the
-- queue stay there.
-- Returns: 1; 0: the table was not captured.
-- Writes: drop trigger.
create or replace function pgq.remove_capture(i_table regclass)
returns int language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_name text;
    v_removed int := 0;
begin
    for v_name in
        select tgname from pg_trigger
         where tgrelid = i_table and tgparentid = 0 and tgfoid = 'pgq.capture()'::regprocedure
    loop
        execute format('drop trigger %I on %s', v_name, i_table);
        v_removed := 1;
    end loop;
    return v_removed;
end $$;
comment on function pgq.remove_capture is 'Ends the capture of a table.';
