-- The identifier that initdb gave to this cluster. Ticks and events of a dump hold xids of the
-- cluster where it was made; a restore elsewhere is noticed by the identifier, or by pgq.checked
-- (G7): see is_moved.
-- Returns: null where the server hides it.
create or replace function pgq.system_identifier() returns bigint language plpgsql stable as $$
begin
    if has_function_privilege('pg_catalog.pg_control_system()', 'execute') then
        return (select system_identifier from pg_catalog.pg_control_system());
    end if;
    return null;
end $$;
