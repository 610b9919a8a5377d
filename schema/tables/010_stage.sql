-- State, version 10: a stage is a transaction whose events wait.
--
-- Up to version 9 a writer's tasks filled a table of their own, and one session copied a million events out of it: twice
-- the work, and the second half by one core. Now tasks write into the queue as any producer does, and the row here says
-- that nobody is given their events yet. Committing writes down whose turn it is: see open_stage.
do $migration$
declare
    v_table regclass;
begin
    if (select version from pgq.installation) >= 10 then
        return;
    end if;

    drop function if exists pgq.open_stage(text, text, bigint), pgq.commit_stage(text, text, bigint, uuid[], bigint),
        pgq.create_stage(int), pgq.clear_stage(int, boolean), pgq.range_sql(text, txid_snapshot, txid_snapshot, int);
    for v_table in  -- what was staged in them is written again: commit_stage does not find it
        select oid::regclass from pg_class where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname ~ '^stage_[0-9]+$'
    loop
        execute format('drop table %s', v_table);
    end loop;
    drop table pgq.stage;

    create table pgq.stage (
        stage_queue int not null,
        stage_txid bigint not null,
        stage_writer text not null,
        stage_epoch bigint,
        stage_time timestamptz not null default now(),
        stage_commit bigint,  -- the transaction that gave the events away; null: they wait; 0: nobody gets them
        primary key (stage_queue, stage_txid)
    );
    create index stage_commit_idx on pgq.stage (stage_queue, stage_commit);
    comment on table pgq.stage is 'Transactions whose events wait until commit_stage, and those whose events waited, as long as they are there.';

    update pgq.installation set version = 10;
end
$migration$;
