-- The trigger that revokes producers' right to COPY while a queue's disable_insert is set, and
-- grants it again, whether set_queue_config or an UPDATE sets the column. See grant_perms.
-- Writes: as grant_perms.
create or replace function pgq.update_insert_rights()
returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform pgq.grant_perms(new.queue_name);
    return null;
end $$;

do $trigger$  -- only where it is missing: making it locks pgq.queue
begin
    if not exists (
            select from pg_trigger
             where tgrelid = 'pgq.queue'::regclass and tgname = 'update_insert_rights') then
        create trigger update_insert_rights after update of queue_disable_insert on pgq.queue
            for each row when (old.queue_disable_insert <> new.queue_disable_insert)
            execute function pgq.update_insert_rights();
    end if;
end $trigger$;
