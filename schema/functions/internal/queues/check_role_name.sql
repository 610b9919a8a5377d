-- Refuses a session whose role has a name that is not valid in the encoding of this database, such
-- as one that was made in a database in LATIN1. In a table, the name would make a dump that cannot
-- be restored, and clients could not read it.
-- Raises: PQ009.
-- Writes: nothing.
create or replace function pgq.check_role_name()
returns void language plpgsql stable as $$
begin
    -- convert_to checks the bytes by the database's encoding; in SQL_ASCII only convert_from does.
    perform convert_from(
        convert_to(concat(session_user, ' ', current_setting('role')), 'SQL_ASCII'),
        replace(getdatabaseencoding(), 'SQL_ASCII', 'UTF8'));
exception when character_not_in_repertoire then
    raise exception 'the name of this role is not valid in the encoding of this database'
        using errcode = 'PQ009', hint = 'use another role, or rename this one';
end $$;
