-- The trigger of captured tables: it inserts each change of a row, and each TRUNCATE, as an event.
-- See add_capture, which makes the triggers, and docs/capture.md, which describes the events.
-- Applications need no right in the schema pgq.
--
-- It has the rights of the engine's owner, so it evaluates nothing that users define: capture_row
-- makes the row JSON, with the rights of pgq_capture.
--
-- It is an AFTER ROW trigger, and its name sorts first. Where another trigger changes a row again
-- that its statement has changed, the events are in the order of the changes only then. The change
-- of a row waits for the commit of the change before, so it takes a larger id.
--
-- Parameters: the trigger's arguments: queue, name of the table in types of events, key columns.
-- Raises: 42501 a cast changes search_path; 42703 a column of the key is gone or null; as
--   capture_row, insert_event.
-- Writes: as insert_event.
create or replace function pgq.capture()
returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    c_has_new constant boolean := tg_op <> 'DELETE';
    c_has_old constant boolean := tg_op <> 'INSERT';
    v_new json;
    v_old json;
    v_is_escaped boolean;
    v_new_key text;
    v_old_key text;
    v_id bigint;  -- an assignment is not a query, as perform is: that takes a fifth longer
begin
    if tg_op = 'TRUNCATE' then
        v_id := pgq.insert_event(
            tg_argv[0], tg_argv[1] || '.truncate', null, null, null, null, null);
        return null;
    end if;
    -- Users' casts run here, and can change search_path. So until that is checked, all names and
    -- operators have their schema.
    if c_has_new then
        v_new := pgq.capture_row(new);
    end if;
    if c_has_old then
        v_old := pgq.capture_row(old);
    end if;
    -- No operator reads JSON with \u0000, which a json column may hold: capture_rows knows the key.
    v_is_escaped := pg_catalog.strpos(pg_catalog.concat(v_new, v_old),
        pg_catalog.chr(92) operator(pg_catalog.||) 'u') operator(pg_catalog.>) 0;
    if v_is_escaped then
        v_new_key := (pgq.capture_rows(array[new], tg_argv[2:])).keys[1];
        v_old_key := (pgq.capture_rows(array[old], tg_argv[2:])).keys[1];
    end if;
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) 'pg_catalog, pg_temp' then
        raise exception 'a cast to json changes search_path' using errcode = '42501';
    end if;
    if not v_is_escaped and tg_argv[3] is null then
        v_new_key := v_new ->> tg_argv[2];
        v_old_key := v_old ->> tg_argv[2];
    elsif not v_is_escaped then
        v_new_key := pgq.row_key(v_new, tg_argv[2:]);
        v_old_key := pgq.row_key(v_old, tg_argv[2:]);
    end if;
    if c_has_new and v_new_key is null or c_has_old and v_old_key is null then
        raise exception 'the key (%) of the captured table % has changed',
            array_to_string(tg_argv[2:], ', '), tg_relid::regclass using errcode = '42703',
            hint = format('pgqpy capture add %s --queue %s takes the new key',
                tg_relid::regclass, tg_argv[0]);
    end if;
    if tg_op = 'UPDATE' and v_old_key = v_new_key then
        v_id := pgq.insert_event(
            tg_argv[0], tg_argv[1] || '.update', v_new::text, v_new_key, v_old::text, null, null);
        return null;
    end if;
    if c_has_old then
        v_id := pgq.insert_event(
            tg_argv[0], tg_argv[1] || '.delete', v_old::text, v_old_key, null, null, null);
    end if;
    if c_has_new then
        v_id := pgq.insert_event(
            tg_argv[0], tg_argv[1] || '.insert', v_new::text, v_new_key, null, null, null);
    end if;
    return null;
end $$;
comment on function pgq.capture is 'Trigger: inserts the changes of a table as events.';
