-- State, version 10: a stage is a transaction whose events wait.
--
-- A writer's tasks insert into the queue as any producer does, side by side, and a row here says that nobody is given their
-- events yet; committing writes down by which transaction they are given. So nothing is written twice, as it would be
-- if they filled a table of their own and one session copied it: see open_stage.
--
-- What was staged in such tables is written again: commit_stage does not find it. Who commits locks pgq.stage before them.
do $migration$
declare
    v_table name;
begin
    if (select version from pgq.installation) >= 10 then
        return;
    end if;

    lock table pgq.stage in access exclusive mode;
    drop function if exists pgq.open_stage(text, text, bigint);  -- it returns something else now
    for v_table in
        select relname from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^stage_[0-9]+$'
    loop
        execute format('drop table pgq.%I', v_table);
    end loop;
    drop table pgq.stage;

    create table pgq.stage (
        stage_queue int not null,
        stage_txid bigint not null,
        stage_writer text not null,
        stage_epoch bigint,
        stage_time timestamptz not null default now(),
        stage_commit bigint,  -- the transaction that gave the events away; null: they wait; 0: nobody gets them
        stage_role text not null  -- see check_writer
            default coalesce(nullif(current_setting('role'), 'none'), session_user),
        primary key (stage_queue, stage_txid)
    );
    create index stage_commit_idx on pgq.stage (stage_queue, stage_commit);
    comment on table pgq.stage is 'Transactions whose events wait until commit_stage, and those whose events waited, as long as they are there.';

    update pgq.installation set version = 10;
end
$migration$;
