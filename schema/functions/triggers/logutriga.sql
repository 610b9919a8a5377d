-- PGQ's trigger that inserts each change of a row as an event, URL-encoded:
-- ev_type U:id, ev_data
-- id=1&name=x, ev_extra1 public.t.
-- Parameters, raises, writes: see insert_row_event.
create or replace function pgq.logutriga() returns trigger language plpgsql as $$
begin
    return case when pgq.insert_row_event('url', tg_argv, tg_relid, tg_op, tg_when, tg_level,
            pg_catalog.current_setting('search_path'), old, new) then coalesce(new, old) end;
end $$;
comment on function pgq.logutriga is 'A trigger that inserts each change as an event, URL-encoded.';
