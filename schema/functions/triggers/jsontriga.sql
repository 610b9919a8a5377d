-- PGQ's trigger that inserts each change of a row as an event, as JSON:
-- ev_type {"op":"UPDATE","table":["public","t"],"pkey":["id"]}, ev_data
-- {"id":1,"name":"x"}, ev_extra1 public.t.
-- Parameters, raises, writes: see insert_row_event.
create or replace function pgq.jsontriga() returns trigger language plpgsql as $$
begin
    return case when pgq.insert_row_event('json', tg_argv, tg_relid, tg_op, tg_when, tg_level,
            pg_catalog.current_setting('search_path'), old, new) then coalesce(new, old) end;
end $$;
comment on function pgq.jsontriga is 'A trigger that inserts each change as an event, as JSON.';
