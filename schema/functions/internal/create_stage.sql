-- Function: pgq.create_stage(i_stage int)
--
-- Makes the table that a writer's tasks fill. A row holds many events, as arrays side by side: some hundred rows stand for
-- a million events. So commit_stage puts them in order at no cost. Rows of one event each would come out in whatever
-- order the free space of the pages put them, and sorting them would take as long as writing them.
--
-- The table is unlogged: after a crash it is empty, which commit_stage notices. Arrays are stored as they come:
-- compressing what is read once is wasted (PostgreSQL 16 could say so in CREATE TABLE). Autovacuum would find nothing to
-- do but lock it.
--
-- Writes: create table, grant.
create or replace function pgq.create_stage(i_stage int)
returns void language plpgsql as $$
begin
    execute format($sql$
        create unlogged table pgq.stage_%1$s (
            attempt uuid not null,
            piece int not null,
            ev_types text[],
            ev_datas text[],
            ev_extra1s text[],
            ev_extra2s text[],
            ev_extra3s text[],
            ev_extra4s text[]
        ) with (autovacuum_enabled = false, toast.autovacuum_enabled = false);
        alter table pgq.stage_%1$s
            alter ev_types set storage external, alter ev_datas set storage external,
            alter ev_extra1s set storage external, alter ev_extra2s set storage external,
            alter ev_extra3s set storage external, alter ev_extra4s set storage external;
        grant insert on pgq.stage_%1$s to pgq_writer;
        comment on table pgq.stage_%1$s is 'Events that are not committed yet.'$sql$, i_stage);
end
$$;
comment on function pgq.create_stage(int) is 'Makes the table that a writer''s tasks fill.';
