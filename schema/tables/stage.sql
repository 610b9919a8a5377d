-- Table: pgq.stage. A stage is a transaction whose events wait until commit_stage: see open_stage.
-- (It is no stage of a Spark job: one task's transaction.)
--
-- The tasks of a writer insert into the queue in parallel, as any producer does. A row here hides
-- the events of its transaction; commit_stage writes down which transaction releases them. So each
-- event is written once. If the tasks filled tables of their own and one session copied these, it
-- would be written twice.
--
-- A stage is named by a random number, not by its transaction. A standby that lags knows nothing of
-- the last transactions when it becomes the primary, and gives their ids to other transactions: a
-- lost stage would be taken for another task's, and its events would be missing without an error.
--
-- A row stays as long as the queue's tables hold events of its transaction: see maint_stages.
do $$ begin if not exists (select from pgq.installation) then
create table pgq.stage (
    stage_queue int not null,
    stage_txid bigint not null,
    stage_id bigint not null,  -- as open_stage returned it
    stage_writer text not null,
    stage_epoch bigint,
    stage_time timestamptz not null default now(),
    stage_released_by bigint,  -- the transaction that did; null: the events wait; 0: dropped
    stage_events bigint,  -- an estimate for parallel readers; null before commit_stage
    primary key (stage_queue, stage_txid)
);
create index stage_released_by_idx on pgq.stage (stage_queue, stage_released_by);
comment on table pgq.stage is 'Transactions whose events wait for commit_stage, or waited for it.';
end if; end $$;
