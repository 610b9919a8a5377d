-- Table: pgq.installation. One row with the version of the installed tables.
--
-- The files in tables/ make version 1, once: each other file does nothing when the row is there,
-- and the manifest inserts the row after the last file.
-- Raises PQ014: the table has no row, as a schema-only dump restores it.
do $$ begin if to_regclass('pgq.installation') is null then
create table pgq.installation (
    version int not null default 1,
    installed_at timestamptz not null default now(),
    -- a table without a key takes no update under a publication FOR ALL TABLES
    is_only_row boolean primary key default true check (is_only_row)
);
comment on table pgq.installation is 'One row: the version of the engine''s state.';
elsif not exists (select from pgq.installation) then
    raise exception using errcode = 'PQ014',
        message = 'the schema pgq has its tables without their rows, as a schema-only dump '
            'restores them',
        hint = 'run pgqpy schema uninstall, then pgqpy schema install; or restore a dump with data';
end if; end $$;
